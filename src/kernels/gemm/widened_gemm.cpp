#include "kernels/gemm/widened_gemm.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace accrue::kernels::widened {
namespace {

/// Calls act(begin, size) for the blocks of a dimension.
template <class Act>
void each_block(std::int64_t size, const Act& act) {
  for (std::int64_t begin = 0; begin < size; begin += block)
    act(begin, std::min(block, size - begin));
}

void sum_terms(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, bool accumulate,
               Multiply& fp32_product) {
  each_block(a.size(1), [&](std::int64_t begin, std::int64_t terms) {
    fp32_product(sum, a.narrow(1, begin, terms).to(at::kFloat),
                 b.narrow(0, begin, terms).to(at::kFloat), {}, accumulate || begin > 0);
  });
}

/// The memory in which the sum over terms is computed: the destination itself, if that is fp32.
at::Tensor place_of_sum(const at::Tensor& out, bool accumulate) {
  if (out.scalar_type() == at::kFloat) return out;
  return accumulate ? out.to(at::kFloat) : at::empty(out.sizes(), at::kFloat);
}

/// Computes a block of the destination.
void multiply_block(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                    const at::Tensor& bias, bool accumulate, Multiply& fp32_product) {
  at::Tensor sum = place_of_sum(out, accumulate);
  sum_terms(sum, a, b, accumulate, fp32_product);
  if (bias.defined()) sum.add_(bias);
  if (!sum.is_same(out)) out.copy_(sum);
}

}  // namespace

void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
              bool accumulate, Multiply& fp32_product) {
  if (out.dim() > 2) {
    for (std::int64_t i = 0; i < out.size(0); ++i) {
      at::Tensor part = out[i];
      multiply(part, a[i], b[i], bias, accumulate, fp32_product);
    }
    return;
  }
  each_block(out.size(0), [&](std::int64_t row, std::int64_t rows) {
    each_block(out.size(1), [&](std::int64_t column, std::int64_t columns) {
      multiply_block(out.narrow(0, row, rows).narrow(1, column, columns), a.narrow(0, row, rows),
                     b.narrow(1, column, columns),
                     bias.defined() ? bias.narrow(0, column, columns) : bias, accumulate,
                     fp32_product);
    });
  });
}

}  // namespace accrue::kernels::widened
