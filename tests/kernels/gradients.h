#pragma once

#include <ATen/ATen.h>

#include <memory>

#include "accrue/kernels/grad_slot.h"

namespace accrue::testing {

/// A leaf with normal values times `scale`, drawn in double so that every dtype rounds the same
/// ones.
inline at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed,
                       double scale = 1) {
  at::manual_seed(seed);
  return (at::randn(sizes, at::kDouble) * scale).to(dtype).requires_grad_(true);
}

/// A leaf of the same values in double: the other side of a comparison.
inline at::Tensor in_double(const at::Tensor& tensor) {
  return tensor.detach().to(at::kDouble).clone().requires_grad_(true);
}

/// An open slot on `parameter`, whose contents must not appear in any result.
inline std::shared_ptr<kernels::GradSlot> open_slot(const at::Tensor& parameter) {
  const bool is_double = parameter.scalar_type() == at::kDouble;
  auto slot = std::make_shared<kernels::GradSlot>(at::full(
      parameter.sizes(), 1e30, parameter.options().dtype(is_double ? at::kDouble : at::kFloat)));
  slot->open = true;
  kernels::attach(parameter, slot);
  return slot;
}

}  // namespace accrue::testing
