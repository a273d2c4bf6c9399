#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <vector>

#include "accrue/core/memory_tag.h"

namespace accrue::kernels {

/// A weight [N, K] in the form that products read, without autograd. Each member is the weight
/// itself (possibly in blocks), a copy of its shape, or a one-dimensional packed tensor.
struct WeightOperands {
  at::Tensor forward;        ///< for y = x · weightᵀ
  at::Tensor data_gradient;  ///< for the gradient of x, grad · weight; undefined if not requested
};

/// Forms of a master weight for products, recomputed when it has changed since the last use: once
/// per window, not once per micro-batch. A copy in the dtype of the products, and packed layouts of
/// it if requested and supported by the GEMM. Tied weights share one object.
///
/// A change of the master is detected by its version counter and its address. A change that
/// autograd does not record (through `.data()`) is not detected.
class PreparedWeight {
 public:
  /// Returns `master` if it has `dtype`; otherwise the cached copy, detached from autograd.
  const at::Tensor& copy(const at::Tensor& master, at::ScalarType dtype);

  /// For a frozen weight in blocks, or in bf16 for products of another dtype, nothing is cached:
  /// both operands are the master, and each product unpacks it.
  WeightOperands operands(const at::Tensor& master, at::ScalarType dtype, bool data_gradient);

  /// The tensors that the next use reads or writes: the forms that were made, and the master if
  /// there is none or if one is made again.
  std::vector<at::Tensor> next_operands(const at::Tensor& master) const;

  /// Sets whether operands() are packed. In fp32 this takes the weight's bytes for each operand; in
  /// bf16 the bytes of its copy for each, and no copy in the weight's shape.
  void pack(bool wanted);

 private:
  /// A form of a master, with the version from which it was made.
  struct Made {
    static constexpr std::int64_t outdated = -1;
    at::Tensor tensor;
    const void* data = nullptr;
    std::int64_t version = outdated;

    bool has_room(const at::Tensor& master, const at::TensorOptions& options,
                  at::IntArrayRef sizes) const;
    bool is_current(const at::Tensor& master, const at::TensorOptions& options,
                    at::IntArrayRef sizes) const;
    /// write(tensor) writes the current form of the master, into memory counted as `kind`. If it
    /// throws, the tensor is marked outdated.
    template <class Write>
    const at::Tensor& remake(const at::Tensor& master, const at::TensorOptions& options,
                             at::IntArrayRef sizes, MemoryTag kind, const Write& write);
  };

  bool packs_ = false;
  Made copy_, forward_, data_gradient_;
};

}  // namespace accrue::kernels
