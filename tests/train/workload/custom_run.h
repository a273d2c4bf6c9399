#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "accrue/data/own_source.h"
#include "accrue/train/custom.h"
#include "train/own_network.h"
#include "train/tiny_run.h"

namespace accrue::train::custom_run {

inline constexpr std::int64_t samples = 30, batch_samples = 12, inputs = 5, classes = 3;

struct NetImpl : torch::nn::Module {
  NetImpl() : first(inputs, 8), second(8, classes) {
    register_module("first", first);
    register_module("second", second);
    testing::set_waves(*this);
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }

  torch::nn::Linear first, second;
};
TORCH_MODULE(Net);

using testing::largest_difference;

using Summed = torch::nn::functional::CrossEntropyFuncOptions;

inline Loss summed_loss(Net& net, const batch::MicroBatch& micro) {
  return {.sum = torch::nn::functional::cross_entropy(net->forward(micro.inputs), micro.targets,
                                                      Summed().reduction(torch::kSum)),
          .weight = static_cast<double>(micro.targets.size(0))};
}

/// As in many loops: the mean of each micro-batch, which counts as one.
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

/// Runs of a program's own network, on its own samples.
class CustomRun : public testing::TinyRun {
 protected:
  Config config_of_steps(std::int64_t steps, std::optional<std::int64_t> micro) const {
    return testing::by_descent(config(), steps, batch_samples, micro);
  }
};

}  // namespace accrue::train::custom_run
