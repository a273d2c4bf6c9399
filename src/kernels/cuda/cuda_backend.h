#pragma once

#include "kernels/aten/aten_backend.h"

namespace accrue::kernels {

/// ATen's operators, and accrue's own kernels for the cases that these support
/// (kernels/compiled).
class CudaBackend final : public AtenBackend {
 public:
  at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& out,
                                at::Tensor& grad_pre) const override;
  void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) const override;
  Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                       const NormParameters& parameters) const override;
  NormGradients norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                               const at::Tensor& grad_sum, const at::Tensor& input,
                               const at::Tensor& statistics, const NormParameters& parameters,
                               at::ScalarType y_dtype) const override;
  at::Tensor add(const at::Tensor& x, const at::Tensor& y) const override;
  void add_at(at::Tensor& sums, const at::Tensor& index, const at::Tensor& values) const override;
  bool pack_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  Projections& to) const override;
  bool fuses_cross_entropy(const at::Tensor& logits) const override;
  at::Tensor fused_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                 const at::Tensor& factors,
                                 const at::Tensor& gradient) const override;
};

}  // namespace accrue::kernels
