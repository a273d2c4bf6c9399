#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "accrue/core/forward_context.h"
#include "accrue/core/loss.h"
#include "accrue/kernels/activation.h"
#include "accrue/kernels/attention.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/linear.h"
#include "accrue/kernels/log_probabilities.h"
#include "accrue/kernels/norm.h"
#include "accrue/kernels/prepared_weight.h"

namespace accrue::kernels {

/// The operations of accrue's models, each by the contract of the function of the same name in
/// accrue/kernels: shapes, dtypes, masks. A pass selects the implementation
/// (ForwardContext::operations).
class Operations {
 public:
  virtual ~Operations() = default;
  virtual at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            PreparedWeight& prepared, const Remake& remake_x) const = 0;
  virtual at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, PreparedWeight& prepared,
                                    LowRank& factors, const at::Tensor& dropped,
                                    const Remake& remake_dropped) const = 0;
  virtual at::Tensor gelu(const at::Tensor& x) const = 0;
  virtual at::Tensor gate(GateActivation activation, const at::Tensor& gate,
                          const at::Tensor& up) const = 0;
  virtual at::Tensor mlp_gelu(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                              PreparedWeight& prepared1, const at::Tensor& w2, const at::Tensor& b2,
                              PreparedWeight& prepared2, const MlpOptions& options) const = 0;
  virtual at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate,
                               PreparedWeight& prepared_gate, const at::Tensor& up,
                               PreparedWeight& prepared_up, const at::Tensor& down,
                               PreparedWeight& prepared_down,
                               const GatedMlpOptions& options) const = 0;
  virtual at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, double eps, at::ScalarType out) const = 0;
  virtual std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x,
                                                              const at::Tensor& weight,
                                                              const at::Tensor& bias, double eps,
                                                              at::ScalarType out) const = 0;
  virtual std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                           const at::Tensor& weight,
                                                           const at::Tensor& bias, double eps,
                                                           at::ScalarType out) const = 0;
  virtual at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight,
                              const RmsNormOptions& options, at::ScalarType out) const = 0;
  virtual std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x,
                                                            const at::Tensor& weight,
                                                            const RmsNormOptions& options,
                                                            at::ScalarType out) const = 0;
  virtual std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                                         const at::Tensor& weight,
                                                         const RmsNormOptions& options,
                                                         at::ScalarType out) const = 0;
  virtual at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                            const at::Tensor& sines,
                            const std::vector<SampleSpan>& spans) const = 0;
  virtual at::Tensor attention(const at::Tensor& qkv, std::int64_t heads,
                               const AttentionOptions& options,
                               const ForwardContext& context) const = 0;
  virtual at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const GroupedAttentionOptions& options,
                                       const ForwardContext& context) const = 0;
  virtual at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                             std::int64_t site) const = 0;
  virtual at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& y, double probability,
                                 const ForwardContext& context, std::int64_t site) const = 0;
  virtual at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                                  const at::Tensor& position_table,
                                  const std::vector<SampleSpan>& spans) const = 0;
  virtual Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                    const at::Tensor& targets, PreparedWeight& prepared,
                                    const LinearCrossEntropyOptions& options) const = 0;
  virtual at::Tensor linear_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& targets, PreparedWeight& prepared,
                                              const LogProbabilityOptions& options) const = 0;
};

/// accrue's kernels, whose gradients are written to slots.
const Operations& native_operations();

/// The operations that the pass selects.
const Operations& operations_of(const ForwardContext& context);

}  // namespace accrue::kernels
