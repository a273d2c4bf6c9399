#pragma once

#include <memory>

#include "accrue/optim/optimizer.h"
#include "distributed/reduce/sharding.h"

namespace accrue::train {

/// The optimizer of a run in which each rank keeps a slice of the state: after a rank's own step
/// all ranks have all parameters. Steps and what brings the state together are collectives.
class ShardedOptimizer final : public optim::Optimizer {
 public:
  /// `own`, an optimizer of the slice that `sharding` has, is kept by reference.
  ShardedOptimizer(optim::Optimizer& own, std::unique_ptr<distributed::Sharding> sharding)
      : own_(own), sharding_(std::move(sharding)) {}

  void step(accum::MeanGradient&& gradient, double lr) override;
  void set_second_moment(double beta2, double log_decay) override {
    own_.set_second_moment(beta2, log_decay);
  }
  NamedParameters state() const override { return own_.state(); }
  std::vector<optim::StateRange> ranges() const override { return own_.ranges(); }
  void load_state(const StoredTensors& state) override { own_.load_state(state); }
  std::int64_t state_bytes() const override { return own_.state_bytes(); }

  /// The whole state, as an optimizer that owns everything has it, for rank 0. A tensor is brought
  /// together when it is copied, each once, while the other ranks are in hand_over().
  StoredTensors whole_state() const;
  /// Is for the other ranks: returns when rank 0 has copied all tensors.
  void hand_over() const;

 private:
  void gather(const optim::StateRange& range, const at::Tensor& whole) const;

  optim::Optimizer& own_;
  std::unique_ptr<distributed::Sharding> sharding_;
};

/// Bytes of the whole state in a checkpoint, also where the optimizer keeps a slice of it.
std::int64_t whole_state_bytes(const optim::Optimizer& optimizer);

}  // namespace accrue::train
