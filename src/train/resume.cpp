#include "resume.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "accrue/core/error.h"
#include "accrue/core/units.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// All folders that look like checkpoints, newest first, whole or not.
std::vector<fs::path> checkpoint_folders(const RunDirectory& run) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run.checkpoints(), error))
    if (entry.path().filename().string().starts_with("step-")) folders.push_back(entry.path());
  if (error && error != std::errc::no_such_file_or_directory) {
    throw runtime_error("resume", "a readable " + run.checkpoints().string(), error.message(),
                        "mending the file system first");
  }
  std::ranges::sort(folders, std::greater{});
  return folders;
}

fs::path requested_folder(const RunDirectory& run, const std::string& requested) {
  std::int64_t step = 0;
  const char* const end = requested.data() + requested.size();
  const auto [stop, error] = std::from_chars(requested.data(), end, step);
  if (error == std::errc{} && stop == end) return find_checkpoint(run, step);
  return requested;
}

TrainState load_one(const fs::path& checkpoint, const std::string& data_fingerprint,
                    models::Model& model, optim::Optimizer& optimizer) {
  TrainState state = read_checkpoint_state(checkpoint);
  if (state.data_fingerprint != data_fingerprint) {
    throw usage_error("resume",
                      "the data the run was started with (" + state.data_fingerprint + ")",
                      "other data (" + data_fingerprint + ")",
                      "the same files, or a new run.out that starts from this model");
  }
  read_checkpoint_tensors(checkpoint, model, optimizer);
  return state;
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
                    "the old values or a new run.out; " + resumable_keys() + " may change");
}

Resumed load_checkpoint(const RunDirectory& run, const std::string& requested,
                        const std::string& data_fingerprint, models::Model& model,
                        optim::Optimizer& optimizer) {
  Resumed resumed;
  if (!requested.empty()) {
    resumed.checkpoint = requested_folder(run, requested);
    resumed.state = load_one(resumed.checkpoint, data_fingerprint, model, optimizer);
    resumed.ranks = read_checkpoint_ranks(resumed.checkpoint);
    return resumed;
  }
  for (const fs::path& folder : checkpoint_folders(run)) {
    if (!checkpoint_is_whole(folder)) {
      resumed.skipped.push_back(folder.filename().string() + " is not whole");
      continue;
    }
    resumed.state = load_one(folder, data_fingerprint, model, optimizer);
    resumed.ranks = read_checkpoint_ranks(folder);
    resumed.checkpoint = folder;
    break;
  }
  return resumed;
}

}  // namespace accrue::train
