#pragma once

#include <memory>

#include "accrue/optim/optimizer.h"
#include "train/ranks/ranks.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The optimizer with which a rank steps its run. If the state is divided it is made for a group,
/// and is replaced when the group changes.
class RunOptimizer {
 public:
  /// Collective: all ranks construct it, for the present group.
  RunOptimizer(const Ranks& ranks, const Workload& work)
      : own_(make_optimizer(work.config, work.model->parameters(), ranks.slice(work.config))),
        sharded_(ranks.make_sharded(work, *own_)) {}

  /// Steps all parameters.
  optim::Optimizer& whole() const { return sharded_ ? *sharded_ : *own_; }
  /// whole(), if its state is divided among several ranks; else null.
  const ShardedOptimizer* sharded() const { return sharded_.get(); }
  /// ShardedOptimizer::has_whole_parameters(); always so if nothing is divided.
  bool has_whole_parameters() const { return !sharded_ || sharded_->has_whole_parameters(); }
  /// Brings replicas of the ranks' parts up to date, if the run has any. Collective.
  void bring_replica_up_to_date() const {
    if (sharded_) sharded_->bring_replica_up_to_date();
  }

 private:
  std::unique_ptr<optim::Optimizer> own_;
  std::unique_ptr<ShardedOptimizer> sharded_;
};

}  // namespace accrue::train
