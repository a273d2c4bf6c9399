#pragma once

#include "kernels/aten/aten_backend.h"

namespace accrue::kernels {

/// accrue's vectorised passes and oneDNN's products, for tensors in host memory.
class CpuBackend final : public AtenBackend {
 public:
  PassForm form() const override { return PassForm::over_memory; }

  void gelu(const at::Tensor& pre, at::Tensor& out) const override;
  void gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                     at::Tensor& grad_pre) const override;
  at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& out,
                                at::Tensor& grad_pre) const override;
  void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up,
            at::Tensor& out) const override;
  void gate_backward(GateActivation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                     const at::Tensor& up, elementwise::GateResults& results) const override;
  void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) const override;

  Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                       const NormParameters& parameters) const override;
  NormGradients norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                               const at::Tensor& grad_sum, const at::Tensor& input,
                               const at::Tensor& statistics, const NormParameters& parameters,
                               at::ScalarType y_dtype) const override;

  at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                    const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                    bool backwards) const override;

  at::Tensor drop(const at::Tensor& x, const std::vector<MaskedRows>& parts, at::ScalarType dtype,
                  const at::Tensor& added) const override;
  at::Tensor add(const at::Tensor& x, const at::Tensor& y) const override;

  at::Tensor look_up(const std::vector<Part>& parts, const at::Tensor& ids,
                     const at::Tensor& tokens, const at::Tensor& positions) const override;
  void add_rows(const std::vector<Part>& parts, const at::Tensor& ids, const at::Tensor& grad,
                at::Tensor& table) const override;
  void add_positions(const std::vector<Part>& parts, const at::Tensor& grad, at::Tensor& table,
                     bool accumulate) const override;

  Attended attend(const AttentionPlan& plan, const Projections& of) const override;
  void attend_backward(const AttentionPlan& plan, const Projections& of,
                       const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                       Projections& grads) const override;

  HeadResult run_head_chunks(const HeadInput& input, WantedGradients wanted) const override;

  void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                bool accumulate) const override;
  std::int64_t packed_elements(const at::TensorOptions& b, std::int64_t k,
                               std::int64_t n) const override;

  bool convolves(at::ScalarType operands) const override;
  at::Tensor convolve(const at::Tensor& image, const at::Tensor& weight,
                      const ConvolutionSteps& steps) const override;
  at::Tensor image_gradient(const at::Tensor& grad, const at::Tensor& like,
                            const at::Tensor& weight, const ConvolutionSteps& steps) const override;
  at::Tensor kernel_gradient(const at::Tensor& grad, const at::Tensor& image,
                             const at::Tensor& like, const ConvolutionSteps& steps) const override;
};

}  // namespace accrue::kernels
