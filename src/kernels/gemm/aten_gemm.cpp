#include "kernels/gemm/aten_gemm.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <string>

#include "kernels/aten_element.h"

namespace accrue::kernels::aten {
namespace {

/// Whether ATen supports products of narrow operands into a wide destination, as on CUDA.
bool widens(const at::Tensor& out, const at::Tensor& a) {
  return out.is_cuda() && out.scalar_type() == at::kFloat && is_sixteen_bit(a.scalar_type());
}

void multiply_widening(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                       const at::Tensor& bias, bool accumulate) {
  const bool is_batch = out.dim() == 3;
  if (accumulate && is_batch)
    at::baddbmm_out(out, out, a, b, at::kFloat);
  else if (accumulate)
    at::addmm_out(out, out, a, b, at::kFloat);
  else if (is_batch)
    at::bmm_out(out, a, b, at::kFloat);
  else
    at::mm_out(out, a, b, at::kFloat);
  if (bias.defined()) out.add_(bias);
}

void multiply_matrices(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                       const at::Tensor& bias, bool accumulate) {
  if (bias.defined())
    at::addmm_out(out, bias.to(out.scalar_type()), a, b);
  else if (accumulate)
    out.addmm_(a, b);
  else
    at::mm_out(out, a, b);
}

void multiply_batch(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                    const at::Tensor& bias, bool accumulate) {
  if (accumulate)
    out.baddbmm_(a, b);
  else
    at::bmm_out(out, a, b);
  if (bias.defined()) out.add_(bias);
}

}  // namespace

void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
              bool accumulate) {
  if (out.dim() == 4) {
    for (std::int64_t i = 0; i < out.size(0); ++i) {
      at::Tensor part = out[i];
      multiply(part, a[i], b[i], bias, accumulate);
    }
  } else if (widens(out, a)) {
    multiply_widening(out, a, b, bias, accumulate);
  } else if (a.scalar_type() != out.scalar_type()) {
    // ATen has no product of bf16 or fp16 into fp32 on the CPU; converting the operands costs less
    // memory than a temporary of the destination, and keeps its precision.
    multiply(out, a.to(out.scalar_type()), b.to(out.scalar_type()), bias, accumulate);
  } else if (out.dim() == 3) {
    multiply_batch(out, a, b, bias, accumulate);
  } else {
    multiply_matrices(out, a, b, bias, accumulate);
  }
}

std::string description() { return at::hasMKL() ? "ATen (MKL)" : "ATen (BLAS)"; }

}  // namespace accrue::kernels::aten
