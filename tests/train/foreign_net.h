#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "accrue/data/own_source.h"
#include "accrue/train/custom.h"
#include "train/own_network.h"
#include "train/tiny_run.h"

namespace accrue::train::testing {

inline constexpr std::int64_t foreign_samples = 30, foreign_inputs = 5, foreign_classes = 3;

/// Layers of torch::nn with dropout that no cut can reach.
struct ForeignNetImpl : torch::nn::Module {
  explicit ForeignNetImpl(double dropout = 0.3)
      : first(register_module("first", torch::nn::Linear(foreign_inputs, 8))),
        second(register_module("second", torch::nn::Linear(8, foreign_classes))),
        drop(register_module("drop", torch::nn::Dropout(dropout))) {
    set_waves(*this);
  }
  virtual at::Tensor forward(const at::Tensor& x) {
    return second(drop(torch::nn::functional::gelu(
        first(x), torch::nn::functional::GELUFuncOptions().approximate("tanh"))));
  }

  torch::nn::Linear first, second;
  torch::nn::Dropout drop;
};

/// A net in which accrue's product is followed by a gradient that is off by a thousandth.
struct FaultyNetImpl : ForeignNetImpl {
  using ForeignNetImpl::ForeignNetImpl;
  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor y = first(x);
    const auto& node = y.grad_fn();
    const bool is_accrues = node && node->name().find("ForeignProduct") != std::string::npos;
    const at::Tensor same = is_accrues ? y + 1e-3 * (y - y.detach()) : y;
    return second(drop(same));
  }
};

/// A net whose results change from call to call.
struct DriftingNetImpl : ForeignNetImpl {
  using ForeignNetImpl::ForeignNetImpl;
  at::Tensor forward(const at::Tensor& x) override {
    return ForeignNetImpl::forward(x) * (1 + 0.01 * static_cast<double>(passes++));
  }
  std::int64_t passes = 0;
};

using SharedNet = std::shared_ptr<ForeignNetImpl>;

inline Loss foreign_loss(SharedNet& net, const batch::MicroBatch& micro) {
  const at::Tensor logits = net->forward(micro.inputs);
  return {.sum = at::cross_entropy_loss(logits, micro.targets, {}, at::Reduction::Sum),
          .weight = static_cast<double>(micro.targets.size(0))};
}

inline std::shared_ptr<const data::Source> foreign_data() {
  return data::tensor_source(at::arange(foreign_samples * foreign_inputs, at::kDouble)
                                 .mul(0.37)
                                 .sin()
                                 .view({foreign_samples, foreign_inputs}),
                             at::arange(foreign_samples).mul(7).remainder(foreign_classes));
}

/// Runs of such nets in fp64, whose results agree with libtorch's to 1e-12.
class ForeignRun : public TinyRun {
 protected:
  Config foreign_config(std::int64_t steps, std::int64_t micro,
                        const std::string& out = "run") const {
    return by_descent(config(out), steps, 12, micro, 0.5);
  }

  static double largest_difference(const SharedNet& a, const SharedNet& b) {
    return testing::largest_difference(a->parameters(), b->parameters());
  }
};

}  // namespace accrue::train::testing
