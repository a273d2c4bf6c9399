#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/optim/optimizer.h"
#include "support/errors.h"

namespace accrue::optim::testing {

inline constexpr std::int64_t kSteps = 20, kFewSteps = 3;
inline constexpr double kLr = 0.01, kDecay = 0.1;

/// A seeded tensor of its own stream; the global generator is left alone.
inline at::Tensor random_tensor(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator, at::dtype(at::kDouble)).to(dtype);
}

/// Parameters of several shapes: vectors with a tail, matrices, one that is not contiguous, one
/// element, and one large enough for several chunks.
inline NamedParameters make_parameters(at::ScalarType dtype) {
  NamedParameters parameters{{"matrix", random_tensor({7, 9}, dtype, 1)},
                             {"bias", random_tensor({37}, dtype, 2)},
                             {"turned", random_tensor({5, 11}, dtype, 3).t()},
                             {"scale", random_tensor({1}, dtype, 4)},
                             {"large", random_tensor({3, 11'001}, dtype, 5)}};
  for (auto& [name, tensor] : parameters) tensor.requires_grad_(true);
  return parameters;
}

/// Makes mean gradients in the only possible way, with a window: the loss is sum(parameter *
/// coefficients), so the gradient of its sum is the coefficients.
class Windows {
 public:
  explicit Windows(const NamedParameters& parameters,
                   accum::Accumulation accumulation = accum::Accumulation::fp32)
      : buffer_(std::make_shared<accum::GradientBuffer>(parameters, accumulation)),
        window_(buffer_) {}

  /// The sums of window `index`, in order of registration.
  std::vector<at::Tensor> sums(std::int64_t index) const {
    std::vector<at::Tensor> result;
    std::uint64_t seed = 1000 * static_cast<std::uint64_t>(index + 1);
    for (const auto& entry : buffer_->entries())
      result.push_back(
          random_tensor(entry.parameter.sizes(), entry.parameter.scalar_type(), ++seed));
    return result;
  }

  accum::MeanGradient mean_of(const std::vector<at::Tensor>& sums, double weight) {
    window_.open(next_++);
    window_.begin({.index = 0, .weight = weight});
    at::Tensor loss;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!sums[i].defined()) continue;
      const at::Tensor term = (buffer_->entries()[i].parameter * sums[i]).sum();
      loss = loss.defined() ? loss + term : term;
    }
    loss.backward();
    window_.commit(loss.item<double>(), weight);
    return std::move(window_.close()).value();
  }

  /// Window `index` of weight kWeight.
  accum::MeanGradient mean(std::int64_t index) { return mean_of(sums(index), kWeight); }

  static constexpr double kWeight = 3;

 private:
  std::shared_ptr<accum::GradientBuffer> buffer_;
  accum::Window window_;
  std::int64_t next_ = 0;
};

inline std::vector<ParameterGroup> groups_of(const NamedParameters& parameters, double decay) {
  return default_groups(parameters, decay, false);
}

using accrue::testing::usage_message;

}  // namespace accrue::optim::testing
