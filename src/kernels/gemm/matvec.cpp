#include "kernels/gemm/matvec.h"

#include <ATen/Parallel.h>

#include "kernels/aten_element.h"
#include "kernels/gemm/matvec_simd.h"
#include "kernels/grain.h"

namespace accrue::kernels::matvec {
namespace {

bool has_element(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16;
}

/// Whether elements are consecutive; the stride of a dimension of size one does not matter.
bool is_dense_row(const at::Tensor& row) { return row.size(1) == 1 || row.stride(1) == 1; }

}  // namespace

bool fits(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  if (out.dim() != 2 || out.size(0) != 1 || !out.is_cpu() || !has_element(a)) return false;
  const bool transposed = b.stride(0) == 1 && (b.size(1) == 1 || b.stride(1) >= b.size(0));
  if (!transposed || !is_dense_row(a) || !is_dense_row(out)) return false;
  const at::ScalarType sums = accumulation_dtype(a.scalar_type());
  return !bias.defined() || (bias.scalar_type() == sums && bias.is_contiguous());
}

void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  const std::int64_t terms = b.size(0), columns = b.size(1);
  const rows::Matvec task{
      .type = element_of(a.scalar_type(), "matmul"),
      .out_type = element_of(out.scalar_type(), "matmul"),
      .terms = static_cast<std::size_t>(terms),
      .stride = static_cast<std::size_t>(columns == 1 ? terms : b.stride(1)),
      .x = a.const_data_ptr(),
      .weight = b.const_data_ptr(),
      .bias = bias.defined() ? bias.const_data_ptr() : nullptr,
      .out = out.mutable_data_ptr(),
  };
  at::parallel_for(0, columns, grain_of(terms), [&](std::int64_t begin, std::int64_t end) {
    rows::matvec(task, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
}

}  // namespace accrue::kernels::matvec
