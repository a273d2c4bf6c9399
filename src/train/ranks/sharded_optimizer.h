#pragma once

#include <memory>

#include "accrue/optim/optimizer.h"
#include "distributed/reduce/sharding.h"
#include "train/ranks/slice_replica.h"

namespace accrue::train {

/// The optimizer of a run in which each rank keeps a slice of the state: after a rank's own step
/// all ranks have all parameters. Steps and gathering the state are collectives.
///
/// With a replica a step also sends each rank's state to the next one, along with the parameters.
class ShardedOptimizer final : public optim::Optimizer {
 public:
  /// `own`, an optimizer of the slice in `sharding`, is kept by reference. `replica` is null if
  /// there is none.
  ShardedOptimizer(optim::Optimizer& own, std::unique_ptr<distributed::Sharding> sharding,
                   std::unique_ptr<SliceReplica> replica)
      : own_(own), sharding_(std::move(sharding)), replica_(std::move(replica)) {}

  void step(accum::MeanGradient&& gradient, double lr) override;
  void set_fall(const std::optional<optim::RateFall>& fall) override { own_.set_fall(fall); }
  void set_second_moment(double beta2, double log_decay) override {
    own_.set_second_moment(beta2, log_decay);
  }
  NamedParameters state() const override { return own_.state(); }
  std::vector<optim::StateRange> ranges() const override { return own_.ranges(); }
  void load_state(const StoredTensors& state) override { own_.load_state(state); }
  std::int64_t state_bytes() const override {
    return own_.state_bytes() + (replica_ ? replica_->bytes() : 0);
  }

  /// Whether the parameters are those after the optimizer's last step. They are not if ranks were
  /// lost while the parameters were gathered.
  bool has_whole_parameters() const { return has_whole_parameters_; }
  /// Null if there is none.
  const SliceReplica* replica() const { return replica_.get(); }
  /// For a state that changed by other means than a step.
  void bring_replica_up_to_date() const;

  /// The whole state, as a complete optimizer has it, for rank 0. A tensor is gathered when it is
  /// copied, each once, while the other ranks are in hand_over().
  StoredTensors whole_state() const;
  /// For the other ranks: returns when rank 0 has copied all tensors.
  void hand_over() const;

 private:
  void gather_parameters() const;
  void finish_replica();
  void gather(const optim::StateRange& range, const at::Tensor& whole) const;

  optim::Optimizer& own_;
  std::unique_ptr<distributed::Sharding> sharding_;
  std::unique_ptr<SliceReplica> replica_;
  bool has_whole_parameters_ = true;
};

/// Bytes of the whole state in a checkpoint, even if the optimizer keeps a slice of it.
std::int64_t whole_state_bytes(const optim::Optimizer& optimizer);

}  // namespace accrue::train
