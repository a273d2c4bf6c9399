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

/// The folders of a run, as its first rank holds them while it trains; on the other ranks nothing.
struct RunFolders {
  std::unique_ptr<RunClaim> claim;
  std::unique_ptr<Replica> replica;   ///< null if the run has none
  std::vector<std::string> restored;  ///< what the run directory had lost and the replica had
};

/// The options with `resume` as it is to be where they may begin a run. Each rank looks by itself,
/// before any of them writes, and they agree on it when they begin.
RunOptions settled(RunOptions options, const RunCopies& copies);

/// Refuses folders that cannot be used, before anything is planned. A process that works on the run
/// is named rather than its run.
void check_folders(const RunCopies& copies, bool resume);

/// Claims the folders, brings back what the run directory lost beside its checkpoints, and sweeps.
/// Throws a usage Error if they cannot be used, or another process holds one.
RunFolders claim_folders(const RunCopies& copies, bool resume, const RunTenure& tenure);

/// Waits for the copies of a run that has ended after `step`, and tells what there is to tell.
void finish_copies(Replica& replica, std::int64_t step,
                   const std::function<void(const std::string&)>& tell);

}  // namespace accrue::train
