#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accrue/kernels/convolution.h"
#include "accrue/kernels/gate_activation.h"

namespace accrue::kernels {

struct AttentionPlan;
struct Attended;
struct HeadInput;
struct HeadResult;
struct MaskedRows;
struct NormGradients;
struct NormParameters;
struct NormPlan;
struct Normalised;
struct Part;
struct Projections;
struct WantedGradients;
namespace elementwise {
struct GateResults;
}

/// How a back end passes over sums of gradients and states of optimizers, for which their rooms
/// have each pass in two forms.
enum class PassForm {
  over_memory,   ///< loops of the host over their elements
  by_operators,  ///< ATen's operators, which the host need not wait for
};

/// A back end executes the passes that accrue's operations consist of: one function a pass, without
/// autograd. Contracts are those of the functions in the headers that are named below; these
/// functions check the arguments and then call the back end of a tensor (backend_of()). A back end
/// that lacks a pass inherits it from AtenBackend, which runs on any device.
class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual PassForm form() const = 0;

  // kernels/rows/elementwise.h
  virtual void gelu(const at::Tensor& pre, at::Tensor& out) const = 0;
  virtual void gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                             at::Tensor& grad_pre) const = 0;
  virtual at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre,
                                        at::Tensor& out, at::Tensor& grad_pre) const = 0;
  virtual void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up,
                    at::Tensor& out) const = 0;
  virtual void gate_backward(GateActivation activation, const at::Tensor& grad_out,
                             const at::Tensor& gate, const at::Tensor& up,
                             elementwise::GateResults& results) const = 0;
  virtual void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate) const = 0;

  // kernels/rows/norm.h
  virtual Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                               const NormParameters& parameters) const = 0;
  virtual NormGradients norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                                       const at::Tensor& grad_sum, const at::Tensor& input,
                                       const at::Tensor& statistics,
                                       const NormParameters& parameters,
                                       at::ScalarType y_dtype) const = 0;

  /// x [B, T, heads * W] rotated by its positions (accrue/kernels/rotary.h), or back. `positions`
  /// is -1 outside all samples.
  virtual at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                            const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                            bool backwards) const = 0;

  /// `added` (none if undefined) + x [B, T, C] times the masks of its parts, in `dtype`; positions
  /// outside all parts are dropped.
  virtual at::Tensor drop(const at::Tensor& x, const std::vector<MaskedRows>& parts,
                          at::ScalarType dtype, const at::Tensor& added) const = 0;
  /// x + y, in x's dtype: both have it, or x is fp32 and y has 16 bits.
  virtual at::Tensor add(const at::Tensor& x, const at::Tensor& y) const = 0;

  /// Rows of the tables, in fp32 or fp64. `positions` may be undefined, `ids` in host memory.
  virtual at::Tensor look_up(const std::vector<Part>& parts, const at::Tensor& ids,
                             const at::Tensor& tokens, const at::Tensor& positions) const = 0;
  /// table[ids[r]] += grad[r] for every row of the parts, with the same bits every time.
  virtual void add_rows(const std::vector<Part>& parts, const at::Tensor& ids,
                        const at::Tensor& grad, at::Tensor& table) const = 0;
  /// table[t] (+)= the sum of grad at position t of every part, t < the longest part.
  virtual void add_positions(const std::vector<Part>& parts, const at::Tensor& grad,
                             at::Tensor& table, bool accumulate) const = 0;
  /// sums[index[r]] += values[r], with the same bits every time.
  virtual void add_at(at::Tensor& sums, const at::Tensor& index,
                      const at::Tensor& values) const = 0;

  // kernels/attention/attend.h
  virtual Attended attend(const AttentionPlan& plan, const Projections& of) const = 0;
  virtual void attend_backward(const AttentionPlan& plan, const Projections& of,
                               const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                               Projections& grads) const = 0;
  /// Writes the gradients of heads [B, heads, T, W] into those of packed projections, if it has a
  /// pass for these tensors; returns whether it has.
  virtual bool pack_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          Projections& to) const = 0;

  // kernels/cross_entropy/head_chunks.h
  virtual HeadResult run_head_chunks(const HeadInput& input, WantedGradients wanted) const = 0;
  /// Whether it has fused_cross_entropy() for these logits [n, V].
  virtual bool fuses_cross_entropy(const at::Tensor& logits) const = 0;
  /// The losses [n] fp32 of logits [n, V] fp32, which are not kept, and each row's gradient times
  /// its factor in `gradient` [n, V], fp32, bf16 or fp16, if it is defined. targets: [n] int64,
  /// negative if a row does not count; factors: [n] fp32, undefined: 1.
  virtual at::Tensor fused_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                         const at::Tensor& factors,
                                         const at::Tensor& gradient) const = 0;

  /// out (+)= a · b (+ bias, if defined), of checked operands with at least one element and one
  /// term each (kernels/gemm/gemm.h).
  virtual void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                        const at::Tensor& bias, bool accumulate) const = 0;
  /// kernels/gemm/packed_gemm.h.
  virtual std::int64_t packed_elements(const at::TensorOptions& b, std::int64_t k,
                                       std::int64_t n) const = 0;

  /// Whether it convolves operands in this dtype.
  virtual bool convolves(at::ScalarType operands) const = 0;
  /// Convolutions of operands that are rounded to one dtype, with fp32 results
  /// (accrue/kernels/convolution.h): images in channels-last layout.
  virtual at::Tensor convolve(const at::Tensor& image, const at::Tensor& weight,
                              const ConvolutionSteps& steps) const = 0;
  /// Of `like` only the sizes and options are read.
  virtual at::Tensor image_gradient(const at::Tensor& grad, const at::Tensor& like,
                                    const at::Tensor& weight,
                                    const ConvolutionSteps& steps) const = 0;
  virtual at::Tensor kernel_gradient(const at::Tensor& grad, const at::Tensor& image,
                                     const at::Tensor& like,
                                     const ConvolutionSteps& steps) const = 0;
};

/// The back end for operations on `tensor`: that of its device, by the selected kernels
/// (accrue/kernels/kernel_choice.h).
const Backend& backend_of(const at::Tensor& tensor);

/// Whether that back end passes over the tensor's memory.
inline bool passes_over_memory(const at::Tensor& tensor) {
  return backend_of(tensor).form() == PassForm::over_memory;
}

/// The result of a pass over `tensor` in the form that its back end has.
template <class OverMemory, class ByOperators>
auto in_form_of(const at::Tensor& tensor, const OverMemory& over_memory,
                const ByOperators& by_operators) {
  return passes_over_memory(tensor) ? over_memory() : by_operators();
}

}  // namespace accrue::kernels
