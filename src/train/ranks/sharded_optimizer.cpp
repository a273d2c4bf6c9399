#include "train/ranks/sharded_optimizer.h"

#include <ATen/record_function.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

namespace accrue::train {
namespace {

constexpr const char* kWhat = "the optimizer's state for a checkpoint";

}  // namespace

void ShardedOptimizer::step(accum::MeanGradient&& gradient, double lr) {
  own_.step(std::move(gradient), lr);
  has_whole_parameters_ = false;
  if (replica_) replica_->begin_update();
  gather_parameters();
  has_whole_parameters_ = true;
  if (replica_) finish_replica();
}

void ShardedOptimizer::gather_parameters() const {
  RECORD_USER_SCOPE("shard: gather");
  sharding_->gather_parameters();
}

/// The step is done, whatever happened to its copies: a rank that is lost now ends the next
/// collective.
void ShardedOptimizer::finish_replica() {
  RECORD_USER_SCOPE("shard: replicate");
  try {
    replica_->finish_update();
  } catch (const distributed::RanksGone&) {
    // The replica has no step.
  }
}

void ShardedOptimizer::bring_replica_up_to_date() const {
  if (!replica_) return;
  replica_->begin_update();
  replica_->finish_update();
}

void ShardedOptimizer::gather(const optim::StateRange& range, const at::Tensor& whole) const {
  sharding_->gather(range.range, range.values.view({-1}), whole);
}

StoredTensors ShardedOptimizer::whole_state() const {
  const std::vector<optim::StateRange> own = own_.ranges();
  NamedParameters on_each = own_.state();
  std::erase_if(on_each, [&](const NamedParameter& state) {
    return std::ranges::find(own, state.name, &optim::StateRange::name) != own.end();
  });
  StoredTensors result = stored(on_each);
  for (std::size_t i = 0; i < own.size(); ++i)
    result.push_back({own[i].name, own[i].values.scalar_type(), own[i].shape,
                      [this, i, range = own[i]](const at::Tensor& target) {
                        sharding_->from_first(static_cast<std::int64_t>(i), kWhat);
                        gather(range, target.view({-1}));
                      }});
  return result;
}

void ShardedOptimizer::hand_over() const {
  const std::vector<optim::StateRange> own = own_.ranges();
  for (std::size_t done = 0; done < own.size(); ++done)
    gather(own.at(static_cast<std::size_t>(sharding_->from_first(0, kWhat))), {});
}

std::int64_t whole_state_bytes(const optim::Optimizer& optimizer) {
  const std::vector<optim::StateRange> own = optimizer.ranges();
  if (own.empty()) return optimizer.state_bytes();
  std::int64_t bytes = 0;
  for (const optim::StateRange& range : own)
    bytes += c10::multiply_integers(range.shape) *
             static_cast<std::int64_t>(range.values.element_size());
  return bytes;
}

}  // namespace accrue::train
