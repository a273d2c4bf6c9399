#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::kernels {

/// A low-precision copy of a master weight, made when the weight has changed since the last use:
/// once per window, not once per micro-batch. Tied weights share one copy object.
class LowPrecisionCopy {
 public:
  /// `master` itself where it already has `dtype`; else the cached copy, detached from autograd.
  /// A change of the master is seen through its version counter and its address; one made behind
  /// autograd's back (through `.data()`) is not.
  const at::Tensor& of(const at::Tensor& master, at::ScalarType dtype);

 private:
  at::Tensor copy_;
  const void* data_ = nullptr;
  std::int64_t version_ = -1;
};

}  // namespace accrue::kernels
