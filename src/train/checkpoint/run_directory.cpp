#include "accrue/train/run_directory.h"

#include <algorithm>
#include <cstdio>

#include "accrue/core/error.h"
#include "core/near_path.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folders.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

std::string list_of(const std::vector<fs::path>& checkpoints) {
  std::string text;
  for (const fs::path& folder : checkpoints)
    text += (text.empty() ? "" : ", ") + std::to_string(*step_of_folder(folder));
  return "steps " + text;
}

/// The model that an export left in the folder; empty if there is none.
fs::path gguf_file_in(const fs::path& folder) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable))
    if (entry.path().extension() == ".gguf") return entry.path();
  return {};
}

}  // namespace

fs::path RunDirectory::checkpoint(std::int64_t step) const {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return checkpoints() / name;
}

bool RunDirectory::holds_run() const {
  const auto is_there = [](const fs::path& path) {
    std::error_code unreadable;
    return fs::exists(fs::symlink_status(path, unreadable));
  };
  return is_there(config_file()) || is_there(run_file()) || is_there(metrics_file()) ||
         is_there(checkpoints());
}

Config RunDirectory::config() const {
  if (!fs::exists(config_file())) {
    const fs::path model = gguf_file_in(root_);
    throw usage_error("open run " + root_.string(), "a run directory (with config.toml)",
                      !fs::exists(root_)        ? "no such folder"
                      : fs::is_directory(root_) ? "a folder without one"
                                                : "a file",
                      (model.empty() ? "" : model.string() + ", or ") +
                          near_path_or(root_, "the run.out of a training run"));
  }
  return load_config(config_file());
}

std::vector<std::int64_t> RunDirectory::checkpoint_steps() const {
  std::vector<std::int64_t> steps;
  for (const fs::path& folder : checkpoint_folders(*this))
    if (checkpoint_is_whole(folder)) steps.push_back(*step_of_folder(folder));
  return steps;
}

fs::path find_checkpoint(const RunDirectory& run, std::optional<std::int64_t> step) {
  if (!run.holds_run())
    throw usage_error("open run " + run.root().string(), "a run directory", "none",
                      near_path_or(run.root(), "the run.out of a training run"));
  const std::vector<fs::path> folders = checkpoint_folders(run);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    if (!step || step_of_folder(*folder) == step) return *folder;
  const std::string operation = "open a checkpoint of " + run.root().string();
  if (folders.empty())
    throw usage_error(operation, "at least one checkpoint", "none",
                      "--resume, which goes on until one is written");
  throw usage_error(operation, "a step with a checkpoint: " + list_of(folders),
                    "step " + std::to_string(*step), "one of these");
}

}  // namespace accrue::train
