#pragma once

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "accrue/train/config.h"

/// The common part of runs with a program's own networks and data.
namespace accrue::train::testing {

/// Values from -1/2 to 1/2 that differ from parameter to parameter.
inline void set_waves(const torch::nn::Module& net) {
  const at::NoGradGuard no_grad;
  double value = 0.1;
  for (at::Tensor& parameter : net.parameters())
    parameter.copy_(at::arange(parameter.numel()).view_as(parameter).mul(value += 0.07).sin() / 2);
}

/// `c` as a run of `steps` batches of `samples` of the program's own data, in order, by gradient
/// descent in fp64.
inline Config by_descent(Config c, std::int64_t steps, std::int64_t samples,
                         std::optional<std::int64_t> micro, double momentum = 0) {
  c.run.steps = steps;
  c.data.train.clear();
  c.data.val_fraction = 0;
  c.data.order = batch::Order::sequential;
  c.batch = {.samples = samples, .micro = micro};
  c.precision.compute = models::Compute::fp64;
  c.optim = {.kind = OptimizerKind::sgd, .lr = 0.3, .weight_decay = 0, .momentum = momentum};
  c.optim.clip = 0;
  c.optim.schedule.kind = optim::ScheduleKind::constant;
  return c;
}

inline double largest_difference(const std::vector<at::Tensor>& a,
                                 const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

}  // namespace accrue::train::testing
