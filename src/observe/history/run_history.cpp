#include "observe/history/run_history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/json_checksum.h"
#include "core/near_path.h"
#include "observe/history/in_parallel.h"
#include "observe/history/metrics_file.h"
#include "observe/history/noted_metrics.h"
#include "observe/history/run_config.h"
#include "observe/history/run_facts.h"
#include "observe/history/run_state.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// The content of a file of the run, and "" with a remark if there is none.
std::string content_of(const fs::path& file, std::vector<std::string>& remarks) {
  const std::string name = file.filename().string();
  if (!is_file(file)) {
    remarks.push_back(name + ": there is none");
    return "";
  }
  try {
    return read_file(file);
  } catch (const Error&) {
    remarks.push_back(name + ": it cannot be read");
    return "";
  }
}

/// The text of run.json, and "" with a remark if it is not an object.
std::string read_run_json(const fs::path& file, std::vector<std::string>& remarks) {
  std::string text = content_of(file, remarks);
  if (text.empty() || parse_json(text).is_object()) return text;
  remarks.emplace_back("run.json: it is no JSON object, and left out");
  return "";
}

void take_metrics(const fs::path& file, RunHistory& run) {
  Metrics metrics = read_metrics(file);
  run.table = std::move(metrics.table);
  run.evaluations = std::move(metrics.evaluations);
  run.events = std::move(metrics.events);
  std::ranges::move(metrics.remarks, std::back_inserter(run.remarks));
  if (run.table.steps.empty())
    run.remarks.emplace_back(is_file(file) ? "metrics.jsonl: there is no step in it"
                                           : "metrics.jsonl: there is none");
}

/// Each file of a run has a digest: run.json in itself, metrics.jsonl in every checkpoint.
void look_for_changes(const json& run_json, RunHistory& run) {
  if (!has_its_checksum(run_json))
    run.changes.emplace_back("run.json: it changed since it was written (its checksum is another)");
  if (const std::string change = change_of_metrics(run.root, run_json); !change.empty())
    run.changes.push_back("metrics.jsonl: " + change);
  run.remarks.insert(run.remarks.end(), run.changes.begin(), run.changes.end());
}

std::optional<std::int64_t> length_of(const json& run, const json& config) {
  for (const json* steps : {&fact(run, "total_steps"), &fact(fact(config, "run"), "steps")})
    if (const auto count = count_of(*steps)) return count;
  return std::nullopt;
}

/// The last `folders` parts of a path.
std::string last_parts(const fs::path& path, std::size_t folders) {
  fs::path name;
  fs::path rest = path;
  for (std::size_t i = 0; i < folders && rest.has_filename(); ++i, rest = rest.parent_path())
    name = name.empty() ? rest.filename() : rest.filename() / name;
  return name.empty() ? path.string() : name.string();
}

Error no_run(const fs::path& root) {
  std::error_code error;
  const bool is_folder = fs::is_directory(root, error);
  return usage_error("read run " + root.string(), "a run folder, with run.json or metrics.jsonl",
                     is_folder                 ? "a folder without them"
                     : fs::exists(root, error) ? "a file"
                                               : "no such folder",
                     near_path_or(root, "accrue runs DIR, which lists those below DIR"));
}

/// Without links, "." and a trailing slash, as far as the path exists.
fs::path full_path(const fs::path& root) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(root, error);
  return error || path.empty() ? root : path;
}

std::map<std::string, std::set<fs::path>> roots_by_name(const std::vector<RunHistory>& runs) {
  std::map<std::string, std::set<fs::path>> roots;
  for (const RunHistory& run : runs) roots[run.name].insert(full_path(run.root));
  return roots;
}

}  // namespace

bool has_value(const std::vector<double>& column) {
  return std::ranges::any_of(column, [](double value) { return !std::isnan(value); });
}

const std::vector<double>* StepTable::column(const std::string& name) const {
  const auto found = columns.find(name);
  return found == columns.end() ? nullptr : &found->second;
}

bool is_run(const fs::path& folder) {
  return is_file(folder / "run.json") || is_file(folder / "metrics.jsonl");
}

RunHistory read_run(const fs::path& root) {
  if (!is_run(root)) throw no_run(root);
  RunHistory run{.root = root, .name = last_parts(full_path(root), 1)};
  // The claim is checked first: then everything that a run wrote before it ended can be read.
  const bool is_running = is_claimed(root);
  run.run_json = read_run_json(root / "run.json", run.remarks);
  if (is_file(root / "config.toml"))
    run.config_toml = content_of(root / "config.toml", run.remarks);
  take_metrics(root / "metrics.jsonl", run);
  const json facts = parse_run_json(run.run_json);
  look_for_changes(facts, run);
  run.total_steps = length_of(facts, config_of(facts, run.config_toml));
  const auto last_step =
      run.table.steps.empty() ? std::nullopt : std::optional(run.table.steps.back());
  run.state = is_running ? RunState::running : state_when_left(facts, run.total_steps, last_step);
  return run;
}

std::vector<RunHistory> read_runs(const std::vector<fs::path>& roots) {
  // This comes before the long part, so that a mistake is reported at once.
  for (const fs::path& root : roots)
    if (!is_run(root)) throw no_run(root);
  std::vector<RunHistory> runs(roots.size());
  in_parallel(roots.size(), [&](std::size_t i) { runs[i] = read_run(roots[i]); });
  make_names_differ(runs);
  return runs;
}

void make_names_differ(std::vector<RunHistory>& runs) {
  constexpr std::size_t most_folders = 100;
  for (std::size_t folders = 2; folders < most_folders; ++folders) {
    const auto roots = roots_by_name(runs);
    bool changed = false;
    for (RunHistory& run : runs) {
      if (roots.at(run.name).size() < 2) continue;
      std::string longer = last_parts(full_path(run.root), folders);
      changed = changed || longer != run.name;
      run.name = std::move(longer);
    }
    if (!changed) return;
  }
}

}  // namespace accrue::observe
