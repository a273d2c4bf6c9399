#include "sharded_optimizer.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

namespace accrue::train {
namespace {

constexpr const char* kWhat = "the optimizer's state for a checkpoint";

}  // namespace

void ShardedOptimizer::step(accum::MeanGradient&& gradient, double lr) {
  own_.step(std::move(gradient), lr);
  sharding_->gather_parameters();
}

void ShardedOptimizer::gather(const optim::StateStretch& stretch, const at::Tensor& whole) const {
  sharding_->gather(stretch.stretch, stretch.values.view({-1}), whole);
}

StoredTensors ShardedOptimizer::whole_state() const {
  const std::vector<optim::StateStretch> own = own_.stretches();
  NamedParameters on_each = own_.state();
  std::erase_if(on_each, [&](const NamedParameter& state) {
    return std::ranges::find(own, state.name, &optim::StateStretch::name) != own.end();
  });
  StoredTensors result = stored(on_each);
  for (std::size_t i = 0; i < own.size(); ++i)
    result.push_back({own[i].name, own[i].values.scalar_type(), own[i].shape,
                      [this, i, stretch = own[i]](const at::Tensor& target) {
                        sharding_->from_first(static_cast<std::int64_t>(i), kWhat);
                        gather(stretch, target.view({-1}));
                      }});
  return result;
}

void ShardedOptimizer::hand_over() const {
  const std::vector<optim::StateStretch> own = own_.stretches();
  for (std::size_t done = 0; done < own.size(); ++done)
    gather(own.at(static_cast<std::size_t>(sharding_->from_first(0, kWhat))), {});
}

std::int64_t whole_state_bytes(const optim::Optimizer& optimizer) {
  const std::vector<optim::StateStretch> own = optimizer.stretches();
  if (own.empty()) return optimizer.state_bytes();
  std::int64_t bytes = 0;
  for (const optim::StateStretch& stretch : own)
    bytes += c10::multiply_integers(stretch.shape) *
             static_cast<std::int64_t>(stretch.values.element_size());
  return bytes;
}

}  // namespace accrue::train
