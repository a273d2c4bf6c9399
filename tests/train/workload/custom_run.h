#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "accrue/data/own_source.h"
#include "accrue/train/custom.h"
#include "train/tiny_run.h"

namespace accrue::train::custom_run {

inline constexpr std::int64_t samples = 30, batch_samples = 12, inputs = 5, classes = 3;

struct NetImpl : torch::nn::Module {
  NetImpl() : first(inputs, 8), second(8, classes) {
    register_module("first", first);
    register_module("second", second);
    const at::NoGradGuard no_grad;
    double value = 0.1;
    for (at::Tensor& parameter : this->parameters())
      parameter.copy_(at::arange(parameter.numel()).view_as(parameter).mul(value += 0.07).sin() /
                      2);
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }

  torch::nn::Linear first, second;
};
TORCH_MODULE(Net);

using Summed = torch::nn::functional::CrossEntropyFuncOptions;

inline Loss summed_loss(Net& net, const batch::MicroBatch& micro) {
  return {.sum = torch::nn::functional::cross_entropy(net->forward(micro.inputs), micro.targets,
                                                      Summed().reduction(torch::kSum)),
          .weight = static_cast<double>(micro.targets.size(0))};
}

/// What many loops do: the mean of each micro-batch, which counts as one.
inline Loss mean_of_micro_batch(Net& net, const batch::MicroBatch& micro) {
  const Loss loss = summed_loss(net, micro);
  return {.sum = loss.sum / loss.weight, .weight = 1};
}

inline at::Tensor all_inputs() {
  return at::arange(samples * inputs, at::kDouble).mul(0.37).sin().view({samples, inputs});
}
inline at::Tensor all_targets() { return at::arange(samples).mul(7).remainder(classes); }
inline std::shared_ptr<const data::Source> all_samples() {
  return data::tensor_source(all_inputs(), all_targets());
}

/// Runs of a network of the program's own, on samples that it makes.
class CustomRun : public testing::TinyRun {
 protected:
  Config config_of_steps(std::int64_t steps, std::optional<std::int64_t> micro) const {
    Config c = config();
    c.run.steps = steps;
    c.data.train.clear();
    c.data.val_fraction = 0;
    c.data.order = batch::Order::sequential;
    c.batch = {.samples = batch_samples, .micro = micro};
    c.precision.compute = models::Compute::fp64;
    c.optim = {.kind = OptimizerKind::sgd, .lr = 0.3, .weight_decay = 0, .momentum = 0};
    c.optim.clip = 0;
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    return c;
  }
};

inline double largest_difference(const std::vector<at::Tensor>& a,
                                 const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

}  // namespace accrue::train::custom_run
