#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>

namespace accrue::kernels {

/// Products by a right operand that is used many times, such as a weight for a window, in the
/// layout that the GEMM reads fastest. Measurements: docs/notes/gemm.md.

/// Elements of the layout of b [K, N] with these options; 0 if products read a plain b equally
/// fast, or have no separate layout for its dtype and device.
std::int64_t packed_elements(const at::TensorOptions& b, std::int64_t k, std::int64_t n);

/// packed = b, where b has any strides that a product supports and `packed` is [packed_elements] of
/// its dtype. It counts as a change of `packed` for autograd.
void pack_out(at::Tensor& packed, const at::Tensor& b);

/// out[M, N] = a[M, K] · b (+ bias[N], if defined), like gemm_out and gemm_bias_out, for a packed b
/// [K, N].
void gemm_packed_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& packed,
                     const at::Tensor& bias = {});

}  // namespace accrue::kernels
