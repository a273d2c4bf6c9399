#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accrue/train/trainer.h"
#include "train/checkpoint/replica.h"
#include "train/checkpoint/run_claim.h"
#include "train/checkpoint/run_copies.h"

namespace accrue::train {

/// The folders of a run, as its first rank holds them while it trains; empty on the other ranks.
struct RunFolders {
  std::unique_ptr<RunClaim> claim;
  std::unique_ptr<Replica> replica;   ///< null if the run has none
  std::vector<std::string> restored;  ///< files that the run directory had lost and the replica had
};

/// The options, with `resume` only if there is a run in case they may also begin one. Each rank
/// looks for itself, before any of them writes, and they agree on it when they begin.
RunOptions settled(RunOptions options, const RunCopies& copies);

/// Throws if the folders cannot be used, before anything is planned. If another process works on
/// the run, the error names that process rather than the run.
void check_folders(const RunCopies& copies, bool resume);

/// Claims the folders, restores files besides checkpoints that the run directory lost, and sweeps.
/// Throws a usage Error if they cannot be used, or another process holds one.
RunFolders claim_folders(const RunCopies& copies, bool resume, const RunTenure& tenure);

/// Waits for the copies of a run that has ended after `step`, and passes remarks to `tell`.
void finish_copies(Replica& replica, std::int64_t step,
                   const std::function<void(const std::string&)>& tell);

}  // namespace accrue::train
