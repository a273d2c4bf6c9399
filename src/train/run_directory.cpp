#include "accrue/train/run_directory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "accrue/core/atomic_file.h"
#include "accrue/core/error.h"
#include "accrue/train/workload.h"
#include "checkpoint.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view checkpoint_prefix = "step-";

std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(checkpoint_prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + checkpoint_prefix.size(), end, step);
  return error == std::errc{} && stop == end ? std::optional(step) : std::nullopt;
}

std::string list_of(const std::vector<std::int64_t>& steps) {
  if (steps.empty()) return "none";
  std::string text;
  for (const std::int64_t step : steps) text += (text.empty() ? "" : ", ") + std::to_string(step);
  return "steps " + text;
}

}  // namespace

fs::path RunDirectory::checkpoint(std::int64_t step) const {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return checkpoints() / name;
}

bool RunDirectory::holds_run() const {
  std::error_code unreadable;
  return fs::exists(config_file(), unreadable) || fs::exists(run_file(), unreadable) ||
         fs::exists(metrics_file(), unreadable) || fs::exists(checkpoints(), unreadable);
}

void RunDirectory::create(const Config& config, const std::string& run_json) const {
  try {
    fs::create_directories(root_);
    write_file_atomically(config_file(), to_toml(config));
    write_file_atomically(run_file(), run_json);
    fs::create_directories(checkpoints());
  } catch (const std::exception& error) {
    abandon();
    throw usage_error("create run directory " + root_.string(), "a place that can be written",
                      error.what(), "another run.out");
  }
}

void RunDirectory::abandon() const {
  if (!checkpoint_steps().empty()) return;
  std::error_code ignored;
  for (const fs::path& path : {config_file(), run_file(), metrics_file()})
    fs::remove(path, ignored);
  fs::remove_all(checkpoints(), ignored);
  fs::remove(root_, ignored);  // only where nothing else is in it
}

Config RunDirectory::config() const {
  if (!fs::exists(config_file())) {
    throw usage_error("open run " + root_.string(), "a run directory (with config.toml)",
                      fs::exists(root_) ? "a folder without one" : "no such folder",
                      "the run.out of a training run");
  }
  return load_config(config_file());
}

std::vector<std::int64_t> RunDirectory::checkpoint_steps() const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints(), error))
    if (const auto step = step_of(entry.path()); step && checkpoint_is_whole(entry.path()))
      steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

fs::path find_checkpoint(const RunDirectory& run, std::optional<std::int64_t> step) {
  const std::vector<std::int64_t> steps = run.checkpoint_steps();
  if (steps.empty() || (step && !std::ranges::binary_search(steps, *step))) {
    throw usage_error("open a checkpoint of " + run.root().string(),
                      step ? "step " + std::to_string(*step) : "at least one whole checkpoint",
                      list_of(steps), "one of these, or a longer run");
  }
  return run.checkpoint(step.value_or(steps.back()));
}

std::unique_ptr<models::Model> load_model(const RunDirectory& run,
                                          std::optional<std::int64_t> step) {
  const Config config = run.config();
  const fs::path checkpoint = find_checkpoint(run, step);
  std::unique_ptr<models::Model> model = make_model(with_checkpoint_shape(config, checkpoint));
  read_checkpoint_model(checkpoint, *model);
  return model;
}

}  // namespace accrue::train
