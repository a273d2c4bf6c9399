#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace accrue::kernels {

/// Matrix products behind one interface: oneDNN on the CPU if available, otherwise ATen. Operands
/// are fp32, bf16 or fp64 (both of one dtype), with any strides with one unit stride per matrix;
/// the destination has their dtype, or is fp32 for bf16 operands if `out` is. A product that
/// accumulates adds inside the GEMM: no temporary of the destination's size.

/// out[..., M, N] (+)= a[..., M, K] · b[..., K, N]. 2 to 4 dimensions; leading ones are batches and
/// must agree. `out` may be strided (its last dimension contiguous). Throws an Error if shapes or
/// dtypes do not match.
void gemm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate = false);

/// Computes out = a · b with bias[N] (fp32 or the operands' dtype) added to every row.
void gemm_bias_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& bias);

/// Whether the processor has instructions for products of bf16 operands. If not, each is composed
/// of fp32 products of its operands' converted blocks: the same terms, summed in fp32 and rounded
/// once, no faster than products of fp32.
bool multiplies_bf16();

/// The most memory of a product of bf16 operands besides them and its destination, in bytes.
std::int64_t bf16_scratch_bytes();

/// "oneDNN 3.2.0 (avx512_core_bf16)" or "ATen (MKL)": what `accrue --version` and run.json show.
std::string gemm_backend();

}  // namespace accrue::kernels
