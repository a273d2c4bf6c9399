#include "kernels/cpu/cpu_backend.h"

#include "kernels/attention/attend.h"
#include "kernels/cpu_passes.h"
#include "kernels/cross_entropy/head_chunks.h"
#include "kernels/gemm/packed_gemm.h"
#include "kernels/rows/norm.h"

namespace accrue::kernels {

void CpuBackend::gelu(const at::Tensor& pre, at::Tensor& out) const { cpu::gelu(pre, out); }

void CpuBackend::gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                               at::Tensor& grad_pre) const {
  cpu::gelu_backward(grad_out, pre, grad_pre);
}

at::Tensor CpuBackend::gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                                          at::Tensor& out, at::Tensor& grad_pre) const {
  return cpu::gelu_with_backward(grad_out, pre, out, grad_pre);
}

void CpuBackend::gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up,
                      at::Tensor& out) const {
  cpu::gate(activation, gate, up, out);
}

void CpuBackend::gate_backward(GateActivation activation, const at::Tensor& grad_out,
                               const at::Tensor& gate, const at::Tensor& up,
                               elementwise::GateResults& results) const {
  cpu::gate_backward(activation, grad_out, gate, up, results);
}

void CpuBackend::column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) const {
  cpu::column_sum(g, out, accumulate);
}

Normalised CpuBackend::normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                                 const NormParameters& parameters) const {
  return cpu::normalise(plan, x, y, parameters);
}

NormGradients CpuBackend::norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                                         const at::Tensor& grad_sum, const at::Tensor& input,
                                         const at::Tensor& statistics,
                                         const NormParameters& parameters,
                                         at::ScalarType y_dtype) const {
  return cpu::norm_gradients(plan, grad_out, grad_sum, input, statistics, parameters, y_dtype);
}

at::Tensor CpuBackend::rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                              const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                              bool backwards) const {
  return cpu::rotate(x, heads, cosines, sines, positions, backwards);
}

at::Tensor CpuBackend::drop(const at::Tensor& x, const std::vector<MaskedRows>& parts,
                            at::ScalarType dtype, const at::Tensor& added) const {
  return cpu::drop(x, parts, dtype, added);
}

at::Tensor CpuBackend::add(const at::Tensor& x, const at::Tensor& y) const {
  return cpu::add(x, y);
}

at::Tensor CpuBackend::look_up(const std::vector<Part>& parts, const at::Tensor& ids,
                               const at::Tensor& tokens, const at::Tensor& positions) const {
  return cpu::look_up(parts, ids, tokens, positions);
}

void CpuBackend::add_rows(const std::vector<Part>& parts, const at::Tensor& ids,
                          const at::Tensor& grad, at::Tensor& table) const {
  cpu::add_rows(parts, ids, grad, table);
}

void CpuBackend::add_positions(const std::vector<Part>& parts, const at::Tensor& grad,
                               at::Tensor& table, bool accumulate) const {
  cpu::add_positions(parts, grad, table, accumulate);
}

Attended CpuBackend::attend(const AttentionPlan& plan, const Projections& of) const {
  return cpu::attend(plan, of);
}

void CpuBackend::attend_backward(const AttentionPlan& plan, const Projections& of,
                                 const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                                 Projections& grads) const {
  cpu::attend_backward(plan, of, kept, grad_out, grads);
}

HeadResult CpuBackend::run_head_chunks(const HeadInput& input, WantedGradients wanted) const {
  return cpu::run_head_chunks(input, wanted);
}

void CpuBackend::multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& bias, bool accumulate) const {
  cpu::multiply(out, a, b, bias, accumulate);
}

std::int64_t CpuBackend::packed_elements(const at::TensorOptions& b, std::int64_t k,
                                         std::int64_t n) const {
  return kernels::packed_elements(b, k, n);
}

bool CpuBackend::convolves(at::ScalarType operands) const { return operands == at::kBFloat16; }

at::Tensor CpuBackend::convolve(const at::Tensor& image, const at::Tensor& weight,
                                const ConvolutionSteps& steps) const {
  return cpu::convolve(image, weight, steps);
}

at::Tensor CpuBackend::image_gradient(const at::Tensor& grad, const at::Tensor& like,
                                      const at::Tensor& weight,
                                      const ConvolutionSteps& steps) const {
  return cpu::image_gradient(grad, like, weight, steps);
}

at::Tensor CpuBackend::kernel_gradient(const at::Tensor& grad, const at::Tensor& image,
                                       const at::Tensor& like,
                                       const ConvolutionSteps& steps) const {
  return cpu::kernel_gradient(grad, image, like, steps);
}

}  // namespace accrue::kernels
