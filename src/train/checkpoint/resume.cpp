#include "train/checkpoint/resume.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "core/words.h"
#include "train/checkpoint/checkpoint_folders.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

fs::path requested_folder(const RunDirectory& run, const std::string& requested) {
  std::int64_t step = 0;
  const char* const end = requested.data() + requested.size();
  const auto [stop, error] = std::from_chars(requested.data(), end, step);
  if (error == std::errc{} && stop == end) return find_checkpoint(run, step);
  return requested;
}

/// The newest checkpoint that is as it was written, as far as `files` are read; notes those that
/// are not.
std::optional<VerifiedCheckpoint> newest_whole(
    const RunDirectory& run, std::vector<std::string>& skipped,
    VerifiedCheckpoint::Files files = VerifiedCheckpoint::Files::all) {
  const std::vector<fs::path> folders = checkpoint_folders(run);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    try {
      return VerifiedCheckpoint(*folder, files);
    } catch (const Error& damage) {
      skipped.emplace_back(damage.what());
    }
  }
  if (skipped.empty()) return std::nullopt;
  throw usage_error("resume " + run.root().string(), "a checkpoint that is as it was written",
                    "none: " + listed(skipped, "and"), "copies of these files, or a new run.out");
}

/// The first name in the folder that no run and no shell's redirection put there; empty: none.
std::string foreign_name(const fs::path& folder) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && !name.ends_with(".log")) return name;
  }
  return {};
}

}  // namespace

void check_run_directory(const RunDirectory& run, bool resume) {
  const std::string where = "run directory " + run.root().string();
  if (run.holds_run() && !resume) {
    throw usage_error(where, "an empty or new folder", "one that holds a run already",
                      "--resume to continue it, or another run.out");
  }
  if (!run.holds_run() && resume) {
    throw usage_error(where, "a run to resume", "none", "leaving --resume out");
  }
  if (run.holds_run()) return;
  if (const std::string other = foreign_name(run.root()); !other.empty())
    throw usage_error(where, "an empty or new folder (logs and hidden files aside)",
                      "one that holds " + other,
                      "another run.out, such as " + (run.root() / "run").string());
}

void check_room(std::int64_t needed_bytes, std::int64_t free_bytes, const std::string& where) {
  if (free_bytes >= needed_bytes) return;
  throw usage_error("run directory " + where,
                    "room for its checkpoints (" + format_bytes(needed_bytes) + ")",
                    format_bytes(free_bytes) + " free", "another run.out, or a smaller run.keep");
}

std::int64_t checkpoint_room(const RunConfig& config, std::int64_t total_steps,
                             std::int64_t model_bytes, std::int64_t optimizer_bytes) {
  // A new checkpoint is written beside the kept ones before the oldest is removed.
  const std::int64_t checkpoints =
      std::min(config.keep, total_steps) + (config.keep_best ? 1 : 0) + 1;
  return checkpoints * (model_bytes + optimizer_bytes);
}

std::int64_t free_bytes_at(fs::path where) {
  where = fs::absolute(where);
  std::error_code error;
  while (!fs::exists(where, error) && where.has_relative_path()) where = where.parent_path();
  const fs::space_info space = fs::space(where, error);
  return error ? std::numeric_limits<std::int64_t>::max()
               : static_cast<std::int64_t>(space.available);
}

void check_config_unchanged(const Config& started, const Config& now) {
  std::string changed;
  for (const ConfigDifference& difference : differences(started, now)) {
    if (may_change_on_resume(difference.key)) continue;
    changed += (changed.empty() ? "" : ", ") + difference.key + " = " + difference.after +
               " (was " + difference.before + ")";
  }
  if (changed.empty()) return;
  throw usage_error("resume", "the config the run was started with", changed,
                    "the old values or a new run.out; " + resumable_keys(now) + " may change");
}

std::optional<TrainState> state_to_resume(const RunDirectory& run, const std::string& requested) {
  if (!requested.empty()) return read_checkpoint_state(requested_folder(run, requested));
  std::vector<std::string> skipped;
  const auto found = newest_whole(run, skipped, VerifiedCheckpoint::Files::none);
  return found ? std::optional(found->state()) : std::nullopt;
}

Resumed load_checkpoint(const RunDirectory& run, const std::string& requested,
                        const DataIdentity& data, bool accept_data, models::Model& model,
                        optim::Optimizer& optimizer) {
  Resumed resumed;
  const std::optional<VerifiedCheckpoint> checkpoint =
      requested.empty() ? newest_whole(run, resumed.skipped)
                        : std::optional<VerifiedCheckpoint>(requested_folder(run, requested));
  if (!checkpoint) return resumed;
  const DataIdentity& before = checkpoint->state().data;
  if (check_continuity(before, data, accept_data) == DataChange::accepted)
    resumed.data_change = "other data were accepted by --accept-data: " + data.fingerprint +
                          " instead of " + before.fingerprint;
  checkpoint->load(model, optimizer);
  resumed.state = checkpoint->state();
  resumed.state.data = data;
  resumed.ranks = checkpoint->ranks();
  resumed.checkpoint = checkpoint->folder();
  resumed.has_checksums = checkpoint->has_checksums();
  return resumed;
}

}  // namespace accrue::train
