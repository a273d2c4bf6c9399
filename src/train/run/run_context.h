#pragma once

#include <memory>
#include <vector>

#include "accrue/core/observer.h"
#include "accrue/memory/budget.h"
#include "accrue/train/run_directory.h"
#include "accrue/train/trainer.h"
#include "core/notice_signal.h"
#include "core/stop_signals.h"
#include "observe/metrics_account.h"
#include "train/checkpoint/replica.h"
#include "train/checkpoint/run_claim.h"
#include "train/limits/limit_watch.h"
#include "train/ranks/ranks.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The demands of the machine on a run while it trains.
struct ResourceWatches {
  explicit ResourceWatches(const Config& config)
      : budget(config.memory.budget_file), limits(config.run.limits) {}

  memory::BudgetWatch budget;
  LimitWatch limits;
};

/// The objects that a run works on; all of them outlive the loop.
struct RunContext {
  const Workload& work;
  const RunPlan& plan;
  optim::Optimizer& optimizer;
  const ShardedOptimizer* sharded;  ///< `optimizer` if its state is divided among ranks, or null
  const RunDirectory& directory;
  const std::vector<std::shared_ptr<Observer>>& observers;
  const Trainer::GradientHook& gradient_hook;
  ResourceWatches& watches;
  const Ranks& ranks;
  const StopSignalWatch& signals;
  const NoticeWatch& notice;
  const RunClaim* claim;             ///< set on the first rank, null on others
  Replica* replica;                  ///< set on the first rank of a run that has one, else null
  observe::MetricsAccount* metrics;  ///< set on the first rank of a run that writes them, else null
};

}  // namespace accrue::train
