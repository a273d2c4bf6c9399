#include "train/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/near_path.h"
#include "observe/history/noted_metrics.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folders.h"
#include "train/checkpoint/kept_tokenizer.h"
#include "train/checkpoint/run_claim.h"
#include "train/checkpoint/run_record.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

std::int64_t bytes_in(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code unreadable;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, unreadable))
    if (file.is_regular_file(unreadable))
      bytes += static_cast<std::int64_t>(file.file_size(unreadable));
  return bytes;
}

void expect_run(const RunDirectory& run) {
  if (!run.holds_run())
    throw usage_error("open run " + run.root().string(), "a run directory", "none",
                      near_path_or(run.root(), "the run.out of a training run"));
}

/// The examination of a checkpoint, with its state if that can be read.
struct Examined {
  StoredCheckpoint stored;
  std::optional<TrainState> state;
};

Examined examine(std::int64_t step, const fs::path& folder, Thoroughness thoroughness) {
  Examined found{.stored = {.step = step, .folder = folder, .bytes = bytes_in(folder)},
                 .state = {}};
  try {
    const VerifiedCheckpoint checkpoint(folder, thoroughness == Thoroughness::contents
                                                    ? VerifiedCheckpoint::Files::all
                                                    : VerifiedCheckpoint::Files::none);
    found.stored.has_checksums = checkpoint.has_checksums();
    found.state = checkpoint.state();
    found.stored.middle = found.state->middle;
  } catch (const Error& damage) {
    found.stored.damage = damage.what();
  }
  return found;
}

/// Marks the best checkpoint, which is recorded in the newest one that can be read.
void mark_best(std::vector<StoredCheckpoint>& checkpoints,
               const std::optional<TrainState>& newest) {
  if (!newest || !newest->best_step) return;
  for (StoredCheckpoint& checkpoint : checkpoints)
    if (checkpoint.step == *newest->best_step) checkpoint.best_eval = newest->best_eval;
}

}  // namespace

std::vector<StoredCheckpoint> list_checkpoints(const RunDirectory& run, Thoroughness thoroughness) {
  expect_run(run);
  std::vector<StoredCheckpoint> checkpoints;
  std::optional<TrainState> newest;
  for (const fs::path& folder : checkpoint_folders(run)) {
    Examined found = examine(*step_of_folder(folder), folder, thoroughness);
    checkpoints.push_back(std::move(found.stored));
    if (found.state) newest = std::move(found.state);
  }
  mark_best(checkpoints, newest);
  return checkpoints;
}

std::vector<std::string> damage_outside_checkpoints(const RunDirectory& run) {
  std::vector<std::string> damage;
  try {
    const std::string change = observe::change_of_metrics(run.root(), recorded(run));
    if (!change.empty()) damage.push_back("metrics.jsonl: " + change);
    expect_kept_tokenizer(run);
  } catch (const Error& error) {
    damage.emplace_back(error.what());
  }
  return damage;
}

Pruned prune(const RunDirectory& run, std::int64_t keep, bool damaged) {
  expect_run(run);
  const RunClaim claim(run);
  sweep(run);
  Pruned pruned{.removed = {}, .kept = {}, .remarks = claim.remarks()};
  std::vector<StoredCheckpoint> all = list_checkpoints(run, Thoroughness::contents);
  std::int64_t newer = 0;  // newer intact ones
  for (auto checkpoint = all.rbegin(); checkpoint != all.rend(); ++checkpoint) {
    const bool is_damaged = !checkpoint->damage.empty();
    const bool stays = is_damaged ? !damaged : newer < keep || checkpoint->best_eval.has_value();
    newer += is_damaged ? 0 : 1;
    if (!stays) remove_checkpoint(checkpoint->folder);
    auto& list = stays ? pruned.kept : pruned.removed;
    list.insert(list.begin(), *checkpoint);
  }
  return pruned;
}

}  // namespace accrue::train
