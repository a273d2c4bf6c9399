#include "kernels/gemm/parameter_gradient.h"

#include <ATen/ATen.h>

#include "accrue/kernels/grad_slot.h"
#include "kernels/aten_element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rows/elementwise.h"

namespace accrue::kernels {

at::Tensor weight_gradient(const at::Tensor& weight, const at::Tensor& grad, const at::Tensor& x) {
  if (GradSlot* slot = open_slot_of(weight)) {
    Contribution to = slot->contribute();
    gemm_out(to.into, grad.t(), x, to.add);
    slot->done();
    return {};
  }
  at::Tensor gradient = at::empty(weight.sizes(), weight.options());
  gemm_out(gradient, grad.t(), x);
  return gradient;
}

at::Tensor row_sum_gradient(const at::Tensor& parameter, const at::Tensor& grad) {
  if (GradSlot* slot = open_slot_of(parameter)) {
    Contribution to = slot->contribute();
    elementwise::column_sum(grad, to.into, to.add);
    slot->done();
    return {};
  }
  at::Tensor gradient = at::empty(
      parameter.sizes(), parameter.options().dtype(accumulation_dtype(grad.scalar_type())));
  elementwise::column_sum(grad, gradient, false);
  return gradient.to(parameter.scalar_type());
}

at::Tensor as_matrix(const at::Tensor& x) {
  const std::int64_t columns = x.size(-1);
  return x.reshape({columns == 0 ? 0 : x.numel() / columns, columns});
}

}  // namespace accrue::kernels
