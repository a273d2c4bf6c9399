#include "kernels/cuda/cuda_backend.h"

#include "kernels/compiled/fused_rows.h"
#include "kernels/compiled/fused_sums.h"

namespace accrue::kernels {

at::Tensor CudaBackend::gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                                           at::Tensor& out, at::Tensor& grad_pre) const {
  if (compiled::makes_gelu(pre)) return compiled::gelu_with_backward(grad_out, pre, out, grad_pre);
  return AtenBackend::gelu_with_backward(grad_out, pre, out, grad_pre);
}

void CudaBackend::column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) const {
  if (compiled::sums_columns(g, out)) return compiled::column_sum(g, out, accumulate);
  AtenBackend::column_sum(g, out, accumulate);
}

Normalised CudaBackend::normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                                  const NormParameters& parameters) const {
  if (compiled::normalises(plan, x, y)) return compiled::normalise(plan, x, y, parameters);
  return AtenBackend::normalise(plan, x, y, parameters);
}

NormGradients CudaBackend::norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                                          const at::Tensor& grad_sum, const at::Tensor& input,
                                          const at::Tensor& statistics,
                                          const NormParameters& parameters,
                                          at::ScalarType y_dtype) const {
  if (compiled::makes_norm_gradients(grad_out, input, y_dtype))
    return compiled::norm_gradients(grad_out, grad_sum, input, statistics, parameters, y_dtype);
  return AtenBackend::norm_gradients(plan, grad_out, grad_sum, input, statistics, parameters,
                                     y_dtype);
}

at::Tensor CudaBackend::add(const at::Tensor& x, const at::Tensor& y) const {
  return compiled::adds(x, y) ? compiled::sum_of(x, y) : AtenBackend::add(x, y);
}

void CudaBackend::add_at(at::Tensor& sums, const at::Tensor& index,
                         const at::Tensor& values) const {
  if (compiled::adds_rows(values, sums)) return compiled::add_rows(index, values, sums);
  AtenBackend::add_at(sums, index, values);
}

bool CudaBackend::pack_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             Projections& to) const {
  if (!compiled::packs_heads(q, k, v, to)) return false;
  compiled::pack_heads(q, k, v, to);
  return true;
}

bool CudaBackend::fuses_cross_entropy(const at::Tensor& logits) const {
  return compiled::takes_cross_entropy(logits);
}

at::Tensor CudaBackend::fused_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                            const at::Tensor& factors,
                                            const at::Tensor& gradient) const {
  return compiled::cross_entropy(logits, targets, factors, gradient);
}

}  // namespace accrue::kernels
