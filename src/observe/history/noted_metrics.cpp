#include "observe/history/noted_metrics.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "observe/history/line_file.h"
#include "observe/history/run_facts.h"
#include "observe/metrics_account.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Note {
  std::int64_t step = 0, lines = 0;
  std::string digest;
};

/// The note in a checkpoint that was written to its end; none if it has none, like those of earlier
/// versions.
std::optional<Note> note_of(const fs::path& checkpoint) {
  std::error_code error;
  if (!fs::is_regular_file(checkpoint / "manifest.json", error)) return std::nullopt;
  try {
    const json state = parse_json(read_file(checkpoint / "state.json"));
    const json& metrics = fact(state, "metrics");
    const auto step = count_of(fact(state, "step")), lines = count_of(fact(metrics, "lines"));
    const json& digest = fact(metrics, "digest");
    if (!step || !lines || !digest.is_string()) return std::nullopt;
    return Note{*step, *lines, digest.get<std::string>()};
  } catch (const Error&) {
    return std::nullopt;  // Damage of a checkpoint is reported when checkpoints are read.
  }
}

/// By step, the latest first: names have their steps in digits of one width, or of one more.
std::vector<fs::path> latest_first(const fs::path& checkpoints) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error))
    if (entry.path().filename().string().starts_with("step-")) folders.push_back(entry.path());
  std::ranges::sort(folders, [](const fs::path& one, const fs::path& other) {
    const std::string a = one.filename().string(), b = other.filename().string();
    return a.size() != b.size() ? a.size() > b.size() : a > b;
  });
  return folders;
}

/// The digest of the first `count` lines; empty if there are fewer.
std::string digest_of_first(std::int64_t count, const fs::path& file) {
  Checksum checksum;
  LineFile lines(file, 0);
  for (; count > 0; --count) {
    const auto line = lines.next();
    if (!line) return {};
    checksum.add(line->text);
    checksum.add("\n");
  }
  return checksum.text();
}

bool agrees(const Note& note, const fs::path& file) {
  if (digest_of_first(note.lines, file) == note.digest) return true;
  // Lines that do not count may be in between if a person replaced the file meanwhile.
  const std::string content = read_file(file);
  return digest_of_first(note.lines, lines_of_metrics(content), note.step) == note.digest;
}

/// The latest step for which no checkpoint belongs to an abandoned attempt; none: all are of one
/// attempt.
std::optional<std::int64_t> last_sure_step(const json& run_json) {
  const json& resumed = fact(run_json, "resumed");
  if (!resumed.is_array() || resumed.empty() || fact(run_json, "ended").is_object())
    return std::nullopt;
  return count_of(fact(resumed.back(), "step"));
}

}  // namespace

std::string change_of_metrics(const fs::path& root, const json& run_json) {
  const fs::path file = root / "metrics.jsonl";
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  const auto sure = last_sure_step(run_json);
  // The latest one usually decides, so the others are not read.
  for (const fs::path& checkpoint : latest_first(root / "checkpoints")) {
    const std::optional<Note> note = note_of(checkpoint);
    if (!note) continue;
    if (agrees(*note, file)) return {};
    if (sure && note->step > *sure) continue;
    return "it is not as the run wrote it up to step " + std::to_string(note->step) +
           ": lines were changed or taken out";
  }
  return {};
}

}  // namespace accrue::observe
