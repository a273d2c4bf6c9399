#include "train/checkpoint/resume.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "core/atomic_file.h"
#include "core/words.h"
#include "observe/history/metrics_file.h"
#include "train/checkpoint/checkpoint_folders.h"
#include "train/checkpoint/run_info.h"
#include "train/checkpoint/run_record.h"
#include "train/config/accumulation_order.h"
#include "train/config/batch_checks.h"
#include "train/config/data_paths.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

bool is_present(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

/// Throws a usage Error if `folder` is no checkpoint: absent, or a run folder.
void expect_checkpoint_folder(const fs::path& folder) {
  const std::string operation = "resume " + folder.string();
  const std::string expected = "the step of a checkpoint, or a checkpoint's folder";
  if (!is_present(folder)) {
    const auto step = step_of_folder(folder);
    throw usage_error(operation, expected, "a folder that does not exist",
                      step ? "--resume " + std::to_string(*step)
                           : "accrue checkpoint list RUN_DIR, which lists the steps");
  }
  const RunDirectory other(folder);
  if (!is_present(other.run_file()) && !is_present(other.config_file())) return;
  throw usage_error(operation, expected, "a run folder",
                    "accrue train " + folder.string() + " --resume, which continues that run");
}

/// Throws a usage Error if `checkpoint` lies in the folder of another run. To go on from it would
/// replace this run's later checkpoints by another run's. A copy of a checkpoint that lies alone is
/// accepted: nothing shows whose it is.
void expect_of_this_run(const RunCopies& run, const fs::path& checkpoint) {
  fs::path whole = fs::absolute(checkpoint).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "step-00000010/"
  const RunDirectory other(whole.parent_path().parent_path());
  if (!is_present(other.run_file()) || !is_present(run.record().run_file())) return;
  if (are_of_one_run(read_file(other.run_file()), read_file(run.record().run_file()))) return;
  throw usage_error("resume " + checkpoint.string(),
                    "a checkpoint of the run in " + run.own().root().string(),
                    "one of the run in " + other.root().string(),
                    "accrue train " + other.root().string() +
                        " --resume, or --model.from=" + checkpoint.string() + " and a new run.out");
}

fs::path requested_folder(const RunCopies& run, const std::string& requested) {
  std::int64_t step = 0;
  const char* const end = requested.data() + requested.size();
  const auto [stop, error] = std::from_chars(requested.data(), end, step);
  if (error == std::errc{} && stop == end) return run.checkpoint(step);
  expect_checkpoint_folder(requested);
  expect_of_this_run(run, requested);
  return requested;
}

/// The newest checkpoint that is intact, as far as `files` are read; notes those that are
/// not.
std::optional<VerifiedCheckpoint> newest_whole(
    const RunCopies& run, std::vector<std::string>& skipped,
    VerifiedCheckpoint::Files files = VerifiedCheckpoint::Files::all) {
  const std::vector<fs::path> folders = run.checkpoints();
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    try {
      return VerifiedCheckpoint(*folder, files);
    } catch (const Error& damage) {
      skipped.emplace_back(damage.what());
    }
  }
  if (skipped.empty()) return std::nullopt;
  throw usage_error("resume " + run.own().root().string(), "a checkpoint that is as it was written",
                    "none: " + listed(skipped, "and"), "copies of these files, or a new run.out");
}

/// The first step whose line in metrics.jsonl has the time that a checkpoint took, in which it was
/// completed; none if no line has.
std::optional<std::int64_t> step_that_logs_a_checkpoint(const RunDirectory& run) {
  const observe::StepTable table = observe::read_metrics(run.metrics_file()).table;
  const std::vector<double>* const seconds = table.column("checkpoint_seconds");
  if (seconds == nullptr) return std::nullopt;
  const auto first = std::ranges::find_if(*seconds, [](double value) { return value > 0; });
  if (first == seconds->end()) return std::nullopt;
  return table.steps[static_cast<std::size_t>(first - seconds->begin())];
}

/// The evidence that the run had a checkpoint, for people; empty if there is none. A run that was
/// killed has no end in run.json, but it logged its steps.
std::string trace_of_checkpoint(const RunDirectory& run) {
  if (const std::int64_t step = last_recorded_step(run); step > 0)
    return "run.json records that the run reached step " + std::to_string(step);
  if (const auto step = step_that_logs_a_checkpoint(run))
    return "metrics.jsonl records that one was written before step " + std::to_string(*step);
  return {};
}

/// Throws a usage Error if the run, which has no checkpoint, once had one: starting again from step
/// 0 would remove what metrics.jsonl has of the steps that it took.
void expect_none_lost(const RunCopies& run) {
  const std::string trace = trace_of_checkpoint(run.record());
  if (trace.empty()) return;
  const std::string folder = run.own().root().string();
  throw usage_error(
      "resume " + folder, "a checkpoint, as " + trace,
      "none in " + run.own().checkpoints().string() +
          (run.replica() ? " or in " + run.replica()->root().string() : ""),
      "a copy of the checkpoints, or to train from step 0 another run.out, or removing " + folder);
}

/// Why `chosen`, which is the replica's, is preferred to the run's own checkpoints.
std::string reason_for_replica(const RunCopies& run, const fs::path& chosen) {
  const std::string own = run.own().root().string();
  const std::vector<fs::path> folders = checkpoint_folders(run.own());
  const auto step = step_of_folder(chosen);
  const auto older =
      std::ranges::find_if(folders.rbegin(), folders.rend(),
                           [&](const fs::path& folder) { return step_of_folder(folder) < step; });
  std::string what = folders.empty() ? "has no checkpoint" : "has none of that step or later";
  if (!folders.empty() && step_of_folder(folders.back()) >= step) what += " that is whole";
  if (older != folders.rend())
    what += ", the newest before is of step " + std::to_string(*step_of_folder(*older));
  return "the run goes on from the replica, " + run.replica()->root().string() + ": " + own + " " +
         what;
}

/// The advice about keys that `changed`. A batch may change if the command line states it.
std::string how_to_go_on(const std::vector<ConfigDifference>& changed, const Config& now) {
  const ConfigDifference& first = changed.front();
  if (changed.size() == 1 && is_batch_size(first.key) && batch_may_change(now))
    return first.key + " = " + first.before + ", or --" + first.key + "=" + first.after +
           " on the command line, which changes the batch from the next step on";
  if (changed.size() > 1) return "the old values, or a new run.out";
  const bool was_stated = first.before != "not stated";
  return (was_stated ? first.key + " = " + first.before : "leaving " + first.key + " out") +
         ", or a new run.out";
}

}  // namespace

void check_room(std::int64_t needed_bytes, std::int64_t free_bytes, const std::string& where) {
  if (free_bytes >= needed_bytes) return;
  throw usage_error("run directory " + where,
                    "room for its checkpoints (" + format_bytes(needed_bytes) + ")",
                    format_bytes(free_bytes) + " free", "another run.out, or a smaller run.keep");
}

std::int64_t checkpoint_room(const RunConfig& config, std::int64_t total_steps,
                             std::int64_t model_bytes, std::int64_t optimizer_bytes) {
  // A new checkpoint is written in addition to the kept ones before the oldest is removed.
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
  std::vector<ConfigDifference> changed = differences(started, now);
  std::erase_if(changed, [&](const ConfigDifference& difference) {
    return may_change_on_resume(difference.key) || only_moves(difference.key, started, now) ||
           (difference.key == "memory.accumulation" && have_same_order(started, now));
  });
  if (changed.empty()) return;
  std::vector<std::string> texts;
  for (const ConfigDifference& difference : changed) texts.push_back(in_words(difference));
  throw usage_error("resume", "the config the run was started with", listed(texts, "and"),
                    how_to_go_on(changed, now));
}

std::optional<TrainState> state_to_resume(const RunCopies& run, const std::string& requested) {
  if (!requested.empty()) return read_checkpoint_state(requested_folder(run, requested));
  std::vector<std::string> skipped;
  const auto found = newest_whole(run, skipped, VerifiedCheckpoint::Files::none);
  if (found) return found->state();
  expect_none_lost(run);
  return std::nullopt;
}

std::optional<VerifiedCheckpoint> newest_checkpoint(const RunCopies& run) {
  std::vector<std::string> skipped;
  return newest_whole(run, skipped);
}

Resumed load_checkpoint(const RunCopies& run, const std::string& requested,
                        const DataIdentity& data, bool accept_data, models::Model& model,
                        optim::Optimizer& optimizer) {
  Resumed resumed;
  const std::optional<VerifiedCheckpoint> checkpoint =
      requested.empty() ? newest_whole(run, resumed.skipped)
                        : std::optional<VerifiedCheckpoint>(requested_folder(run, requested));
  if (!checkpoint) {
    expect_none_lost(run);
    return resumed;
  }
  const DataIdentity& before = checkpoint->state().data;
  if (check_continuity(before, data, accept_data) == DataChange::accepted)
    resumed.data_change = "other data were accepted by --accept-data: " + data.fingerprint +
                          " instead of " + before.fingerprint;
  checkpoint->load(model, optimizer);
  resumed.state = checkpoint->state();
  resumed.state.data = data;
  resumed.ranks = checkpoint->ranks();
  resumed.window = checkpoint->window();
  resumed.checkpoint = checkpoint->folder();
  if (run.is_of_replica(resumed.checkpoint))
    resumed.replica_reason = reason_for_replica(run, resumed.checkpoint);
  resumed.has_checksums = checkpoint->has_checksums();
  resumed.metrics = checkpoint->metrics();
  return resumed;
}

}  // namespace accrue::train
