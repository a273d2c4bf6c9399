#pragma once

#include <memory>

#include "accrue/optim/optimizer.h"
#include "distributed/reduce/sharding.h"

namespace accrue::train {

/// The optimizer of a run in which each rank keeps the state of a part: after its own part's step
/// all ranks have all parameters. Steps and what brings the state together are collectives.
class ShardedOptimizer final : public optim::Optimizer {
 public:
  /// `own` is kept by reference: an optimizer of the part that `sharding` says.
  ShardedOptimizer(optim::Optimizer& own, std::unique_ptr<distributed::Sharding> sharding)
      : own_(own), sharding_(std::move(sharding)) {}

  void step(accum::MeanGradient&& gradient, double lr) override;
  NamedParameters state() const override { return own_.state(); }
  std::vector<optim::StateRange> ranges() const override { return own_.ranges(); }
  void load_state(const StoredTensors& state) override { own_.load_state(state); }
  std::int64_t state_bytes() const override { return own_.state_bytes(); }

  /// For rank 0: the whole state, as an optimizer of all has it. A tensor is brought together when
  /// it is copied, each once, while the others are in hand_over().
  StoredTensors whole_state() const;
  /// For the others: returns when rank 0 has copied all of them.
  void hand_over() const;

 private:
  void gather(const optim::StateRange& range, const at::Tensor& whole) const;

  optim::Optimizer& own_;
  std::unique_ptr<distributed::Sharding> sharding_;
};

/// What the whole state takes in a checkpoint, also where the optimizer keeps a part of it.
std::int64_t whole_state_bytes(const optim::Optimizer& optimizer);

}  // namespace accrue::train
