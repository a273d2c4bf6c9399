#include "kernels/aten/aten_backend.h"

#include <ATen/ATen.h>

#include "kernels/gemm/aten_gemm.h"
#include "kernels/generic/generic_attention.h"
#include "kernels/generic/generic_convolution.h"
#include "kernels/generic/generic_head.h"
#include "kernels/generic/generic_norm.h"
#include "kernels/generic/generic_rows.h"

namespace accrue::kernels {

void AtenBackend::gelu(const at::Tensor& pre, at::Tensor& out) const {
  at::gelu_out(out, pre, "tanh");
}

void AtenBackend::gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                                at::Tensor& grad_pre) const {
  at::gelu_backward_out(grad_pre, grad_out, pre, "tanh");
}

at::Tensor AtenBackend::gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                                           at::Tensor& out, at::Tensor& grad_pre) const {
  at::gelu_backward_out(grad_pre, grad_out, pre, "tanh");
  at::gelu_out(out, pre, "tanh");
  return {};
}

void AtenBackend::gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up,
                       at::Tensor& out) const {
  generic::gate(activation, gate, up, out);
}

void AtenBackend::gate_backward(GateActivation activation, const at::Tensor& grad_out,
                                const at::Tensor& gate, const at::Tensor& up,
                                elementwise::GateResults& results) const {
  generic::gate_backward(activation, grad_out, gate, up, results);
}

void AtenBackend::column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) const {
  const at::Tensor sums = g.sum(0, false, out.scalar_type());
  accumulate ? out.add_(sums) : out.copy_(sums);
}

Normalised AtenBackend::normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                                  const NormParameters& parameters) const {
  return generic::normalise(plan, x, y, parameters);
}

NormGradients AtenBackend::norm_gradients(const NormPlan& /*plan*/, const at::Tensor& grad_out,
                                          const at::Tensor& grad_sum, const at::Tensor& input,
                                          const at::Tensor& statistics,
                                          const NormParameters& parameters,
                                          at::ScalarType y_dtype) const {
  return generic::norm_gradients(grad_out, grad_sum, input, statistics, parameters, y_dtype);
}

at::Tensor AtenBackend::rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                               const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                               bool backwards) const {
  return generic::rotate(x, heads, cosines, sines, positions, backwards);
}

at::Tensor AtenBackend::drop(const at::Tensor& x, const std::vector<MaskedRows>& parts,
                             at::ScalarType dtype, const at::Tensor& added) const {
  return generic::drop(x, parts, dtype, added);
}

at::Tensor AtenBackend::add(const at::Tensor& x, const at::Tensor& y) const {
  return at::add(x, y);
}

at::Tensor AtenBackend::look_up(const std::vector<Part>& parts, const at::Tensor& ids,
                                const at::Tensor& tokens, const at::Tensor& positions) const {
  return generic::look_up(parts, ids, tokens, positions);
}

void AtenBackend::add_rows(const std::vector<Part>& parts, const at::Tensor& ids,
                           const at::Tensor& grad, at::Tensor& table) const {
  generic::add_rows(*this, parts, ids, grad, table);
}

void AtenBackend::add_positions(const std::vector<Part>& parts, const at::Tensor& grad,
                                at::Tensor& table, bool accumulate) const {
  generic::add_positions(*this, parts, grad, table, accumulate);
}

void AtenBackend::add_at(at::Tensor& sums, const at::Tensor& index,
                         const at::Tensor& values) const {
  generic::add_at(sums, index, values);
}

Attended AtenBackend::attend(const AttentionPlan& plan, const Projections& of) const {
  return generic::attend(plan, of);
}

void AtenBackend::attend_backward(const AttentionPlan& plan, const Projections& of,
                                  const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                                  Projections& grads) const {
  generic::attend_backward(*this, plan, of, kept, grad_out, grads);
}

bool AtenBackend::pack_heads(const at::Tensor& /*q*/, const at::Tensor& /*k*/,
                             const at::Tensor& /*v*/, Projections& /*to*/) const {
  return false;
}

HeadResult AtenBackend::run_head_chunks(const HeadInput& input, WantedGradients wanted) const {
  return generic::run_head_chunks(*this, input, wanted);
}

bool AtenBackend::fuses_cross_entropy(const at::Tensor& /*logits*/) const { return false; }

at::Tensor AtenBackend::fused_cross_entropy(const at::Tensor& /*logits*/,
                                            const at::Tensor& /*targets*/,
                                            const at::Tensor& /*factors*/,
                                            const at::Tensor& /*gradient*/) const {
  TORCH_INTERNAL_ASSERT(false, "a back end that has no fused cross-entropy");
}

void AtenBackend::multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                           const at::Tensor& bias, bool accumulate) const {
  aten::multiply(out, a, b, bias, accumulate);
}

std::int64_t AtenBackend::packed_elements(const at::TensorOptions& /*b*/, std::int64_t /*k*/,
                                          std::int64_t /*n*/) const {
  return 0;
}

bool AtenBackend::convolves(at::ScalarType operands) const {
  return operands == at::kBFloat16 || operands == at::kHalf;
}

at::Tensor AtenBackend::convolve(const at::Tensor& image, const at::Tensor& weight,
                                 const ConvolutionSteps& steps) const {
  return generic::convolve(image, weight, steps);
}

at::Tensor AtenBackend::image_gradient(const at::Tensor& grad, const at::Tensor& like,
                                       const at::Tensor& weight,
                                       const ConvolutionSteps& steps) const {
  return generic::image_gradient(grad, like, weight, steps);
}

at::Tensor AtenBackend::kernel_gradient(const at::Tensor& grad, const at::Tensor& image,
                                        const at::Tensor& like,
                                        const ConvolutionSteps& steps) const {
  return generic::kernel_gradient(grad, image, like, steps);
}

}  // namespace accrue::kernels
