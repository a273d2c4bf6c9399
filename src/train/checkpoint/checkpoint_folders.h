#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The folders under checkpoints/: step-00000010 is a checkpoint, .step-00000010-77.partial is
/// being written by process 77, .replaced gives its place to the next of its name, .removed is
/// being removed. Whatever changes them holds the run (RunClaim).

/// The step that a folder's name says; none if it is no checkpoint's.
std::optional<std::int64_t> step_of_folder(const std::filesystem::path& folder);

/// All folders with a checkpoint's name by step, whole or not. Throws a runtime Error if they
/// cannot be listed.
std::vector<std::filesystem::path> checkpoint_folders(const RunDirectory& run);

/// Where this process writes the checkpoint of this name before it takes its place. Another that
/// was left behind and writes one of the same step (RunClaim) has a place of its own.
std::filesystem::path partial_of(const std::filesystem::path& checkpoint);

/// Puts `partial` in the place of `checkpoint`. What was there is kept until the new one is there.
void put_in_place(const std::filesystem::path& partial, const std::filesystem::path& checkpoint);

/// Removes a checkpoint: it is gone from the run at once, and from the disk when this returns, or
/// after the next sweep. What cannot be removed is left.
void remove_checkpoint(const std::filesystem::path& checkpoint);

/// Removes what a killed process left half-written or half-removed, and puts back a checkpoint that
/// it was about to replace.
void sweep(const RunDirectory& run);

struct PruneOptions {
  std::int64_t newest = 0;  ///< the step just written; later ones belong to an attempt given up
  std::int64_t keep = 2;    ///< how many of the newest stay
  std::optional<std::int64_t> best;  ///< stays besides
};
/// Removes the other checkpoints, and what a killed process left. Damaged ones stay, unless they
/// are later. `expect_held` is called before each removal, and ends it where it throws.
void prune_checkpoints(const RunDirectory& run, const PruneOptions& options,
                       const std::function<void()>& expect_held = {});

/// What resuming from `step` gives up: the later checkpoints. The best evaluated one among them, as
/// the newest of them says, is set aside as checkpoints/best-00000050, if nothing removes it;
/// the others go when the next checkpoint is written. Returns what was decided in a sentence; empty
/// if there is no later one.
std::string give_up_after(const RunDirectory& run, std::int64_t step);

}  // namespace accrue::train
