#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace accrue::kernels {

/// Matrix products behind one interface: oneDNN on CPU where it was found, ATen elsewhere. Operands
/// are fp32, bf16 or fp64 (both of one dtype), any strides with one unit stride per matrix; the
/// destination has their dtype, or is fp32 where they are bf16 and `out` says so. A product that
/// accumulates adds inside the GEMM: no temporary of the destination's size.

/// out[..., M, N] (+)= a[..., M, K] · b[..., K, N]. 2 to 4 dimensions; leading ones are batches and
/// agree. `out` may be strided (its last dimension contiguous). Throws an Error on shape or dtype
/// mismatch.
void gemm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate = false);

/// Computes out = a · b with bias[N] (fp32 or the operands' dtype) added to every row.
void gemm_bias_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& bias);

/// Whether products of bf16 operands run by instructions for them. If they do not, each is made
/// of fp32 products of its operands' widened blocks: the same terms, summed in fp32 and rounded
/// once, no faster than products of fp32.
bool multiplies_bf16();

/// What a product of bf16 operands holds at most besides them and its destination, in bytes.
std::int64_t bf16_scratch_bytes();

/// "oneDNN 3.2.0 (avx512_core_bf16)" or "ATen (MKL)": what `accrue --version` and run.json show.
std::string gemm_backend();

}  // namespace accrue::kernels
