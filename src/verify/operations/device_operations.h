#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace accrue::proof {

using Tensors = std::vector<at::Tensor>;

/// The device and precision in which an operation is run.
struct OperationPlace {
  c10::Device device;
  at::ScalarType dtype;   ///< of activations
  at::ScalarType master;  ///< of parameters and the residual stream
};

/// Draws the same values at every place: in fp64, rounded to bf16, which all support.
class Values {
 public:
  explicit Values(const OperationPlace& place) : place_(place) {}

  at::Tensor draw(at::IntArrayRef sizes, at::ScalarType dtype, double scale = 1) {
    const at::Tensor values =
        at::randn(sizes, generator_, at::TensorOptions(at::kDouble)).mul_(scale).to(at::kBFloat16);
    return values.to(dtype).to(place_.device);
  }
  at::Tensor activation(at::IntArrayRef sizes, double scale = 1) {
    return draw(sizes, place_.dtype, scale).requires_grad_();
  }
  at::Tensor stream(at::IntArrayRef sizes) { return draw(sizes, place_.master).requires_grad_(); }
  at::Tensor parameter(at::IntArrayRef sizes, double scale = 0.1) {
    return draw(sizes, place_.master, scale).requires_grad_();
  }

 private:
  OperationPlace place_;
  at::Generator generator_ = at::detail::createCPUGenerator(/*seed_val=*/7);
};

/// A computation to run at two places.
struct Case {
  const char* name;
  std::int64_t terms;  ///< of the longest sums in it
  std::function<Tensors(const OperationPlace& place)> run;
};

/// Each operation of training, with small tensors: its results and gradients.
std::vector<Case> device_operations();

/// Dropout by sample: the remaining part of random values, and their gradient.
Tensors run_dropout(const OperationPlace& place);

}  // namespace accrue::proof
