#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>

#include "accrue/core/memory_tag.h"

namespace accrue::kernels {

/// A weight [N, K] as its products read it, without autograd. Each is the weight itself, which may
/// be in blocks, a copy of its shape, or a one-dimensional tensor packed for that product.
struct WeightOperands {
  at::Tensor forward;        ///< for y = x · weightᵀ
  at::Tensor data_gradient;  ///< for x's gradient, grad · weight; undefined if not asked for
};

/// What products need of a master weight and is made when it has changed since the last use: once
/// per window, not once per micro-batch. A copy in the dtype of the products; packed layouts of it
/// where they are wanted and the GEMM has them. Tied weights share one object.
///
/// A change of the master is seen through its version counter and its address; one made behind
/// autograd's back (through `.data()`) is not.
class PreparedWeight {
 public:
  /// `master` itself where it already has `dtype`; else the cached copy, detached from autograd.
  const at::Tensor& copy(const at::Tensor& master, at::ScalarType dtype);

  /// Of a frozen weight in blocks, or in bf16 for products of another dtype, nothing is kept: both
  /// are the master, and each product unpacks it for itself.
  WeightOperands operands(const at::Tensor& master, at::ScalarType dtype, bool data_gradient);

  /// Whether operands() are packed. In fp32 that takes the weight's bytes once for each operand; in
  /// bf16 its copy's bytes for each, and no copy in its own shape.
  void pack(bool wanted);

 private:
  /// What was made of a master as it was.
  struct Made {
    static constexpr std::int64_t outdated = -1;
    at::Tensor tensor;
    const void* data = nullptr;
    std::int64_t version = outdated;

    bool has_room(const at::Tensor& master, const at::TensorOptions& options,
                  at::IntArrayRef sizes) const;
    bool is_current(const at::Tensor& master, const at::TensorOptions& options,
                    at::IntArrayRef sizes) const;
    /// write(tensor) puts in what the master is now, into memory that counts as `kind`. If it
    /// throws, the tensor is outdated.
    template <class Write>
    const at::Tensor& remake(const at::Tensor& master, const at::TensorOptions& options,
                             at::IntArrayRef sizes, MemoryTag kind, const Write& write);
  };

  bool packs_ = false;
  Made copy_, forward_, data_gradient_;
};

}  // namespace accrue::kernels
