#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The folders under checkpoints/: step-00000010 is a checkpoint, process 77 is writing
/// .step-00000010-77.partial, a .replaced folder is about to be replaced by the next one of its
/// name, and a .removed folder is being removed. A process that changes them has a RunClaim.

/// The step in a folder's name; none if it is not the name of a checkpoint.
std::optional<std::int64_t> step_of_folder(const std::filesystem::path& folder);

/// All folders with a checkpoint's name, ordered by step, whole or not. Throws a runtime Error if
/// they cannot be listed.
std::vector<std::filesystem::path> checkpoint_folders(const RunDirectory& run);

/// Where this process writes the checkpoint of this name before it is put in place. A process that
/// was left out and writes one of the same step (RunClaim) uses another folder.
std::filesystem::path partial_of(const std::filesystem::path& checkpoint);

/// Replaces `checkpoint` by `partial`. The old folder is kept until the new one is there.
void put_in_place(const std::filesystem::path& partial, const std::filesystem::path& checkpoint);

/// Removes a checkpoint: it disappears from the run at once, and from the disk before this returns
/// or at the next sweep. A folder that cannot be removed stays.
void remove_checkpoint(const std::filesystem::path& checkpoint);

/// Removes what a killed process left half-written or half-removed, and restores a checkpoint that
/// it was about to replace.
void sweep(const RunDirectory& run);

struct PruneOptions {
  std::int64_t newest = 0;  ///< the step just written; later ones belong to an abandoned attempt
  std::int64_t keep = 2;    ///< how many of the newest stay
  std::optional<std::int64_t> best;  ///< is kept as well
};
/// Removes the other checkpoints, and what a killed process left. Damaged ones stay, unless they
/// are later. `expect_held` is called before each removal; if it throws, nothing more is removed.
void prune_checkpoints(const RunDirectory& run, const PruneOptions& options,
                       const std::function<void()>& expect_held = {});

/// Abandons the checkpoints after `step`, from which a run resumes. If the newest of them names the
/// best evaluated one among them, that is set aside as checkpoints/best-00000050, unless it cannot
/// be moved; the others are removed when the next checkpoint is written. Returns a sentence about
/// the decision, empty if there is no later checkpoint.
std::string give_up_after(const RunDirectory& run, std::int64_t step);

}  // namespace accrue::train
