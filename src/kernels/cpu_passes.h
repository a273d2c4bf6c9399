#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

// The passes of CpuBackend over tensors in host memory, by the contracts of kernels/backend.h. Each
// is in the source of its operation, whose headers define the types.
namespace accrue::kernels::cpu {

void gelu(const at::Tensor& pre, at::Tensor& out);
void gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& grad_pre);
at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& out,
                              at::Tensor& grad_pre);
void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up, at::Tensor& out);
void gate_backward(GateActivation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                   const at::Tensor& up, elementwise::GateResults& results);
void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate);
Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                     const NormParameters& parameters);
NormGradients norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                             const at::Tensor& grad_sum, const at::Tensor& input,
                             const at::Tensor& statistics, const NormParameters& parameters,
                             at::ScalarType y_dtype);
at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                  const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                  bool backwards);
at::Tensor drop(const at::Tensor& x, const std::vector<MaskedRows>& parts, at::ScalarType dtype,
                const at::Tensor& added);
at::Tensor add(const at::Tensor& x, const at::Tensor& y);
at::Tensor look_up(const std::vector<Part>& parts, const at::Tensor& ids, const at::Tensor& tokens,
                   const at::Tensor& positions);
void add_rows(const std::vector<Part>& parts, const at::Tensor& ids, const at::Tensor& grad,
              at::Tensor& table);
void add_positions(const std::vector<Part>& parts, const at::Tensor& grad, at::Tensor& table,
                   bool accumulate);
Attended attend(const AttentionPlan& plan, const Projections& of);
void attend_backward(const AttentionPlan& plan, const Projections& of,
                     const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                     Projections& grads);
HeadResult run_head_chunks(const HeadInput& input, WantedGradients wanted);
void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
              bool accumulate);
at::Tensor convolve(const at::Tensor& image, const at::Tensor& weight,
                    const ConvolutionSteps& steps);
at::Tensor image_gradient(const at::Tensor& grad, const at::Tensor& like, const at::Tensor& weight,
                          const ConvolutionSteps& steps);
at::Tensor kernel_gradient(const at::Tensor& grad, const at::Tensor& image, const at::Tensor& like,
                           const ConvolutionSteps& steps);

}  // namespace accrue::kernels::cpu
