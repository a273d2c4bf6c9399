#pragma once

#include <string>
#include <vector>

#include "accrue/core/parameter.h"
#include "kernels/operations.h"
#include "verify/comparison.h"

namespace accrue::proof {

/// One result of one operation, or the gradient of one of its inputs, by accrue's kernel and by
/// ATen's operators from the same values.
struct OperationResult {
  std::string operation;  ///< "mlp_gelu"
  std::string what;       ///< "the gradient of transformer.h.0.mlp.c_fc.weight", "the result"
  /// Dimensions of the parameter of this gradient; 0 for other results.
  std::int64_t parameter_dim = 0;
  double scaling = 0;  ///< the bound along ATen's result: a smaller scaling is not detected
  Evidence worst;      ///< relative to the size of ATen's
  double factor = 1;   ///< the multiple of ATen's that is nearest to accrue's
};

/// How an operation rounds between its inputs and its results, if these are bf16.
enum class Between {
  nothing,  ///< only products and sums, in fp32
  values,   ///< some values once, which both implementations round identically, except ties
  more,     ///< some values that ATen's operators do not round
};

/// Runs each operation by accrue's kernel, with which the pass continues, and, in backward, again
/// by both implementations from the same inputs and the same upstream gradient. So only the
/// rounding of one operation may differ: in low precision this detects faults hidden by the
/// rounding of a whole pass, and names the faulty operation. It compares the gradients that kernels
/// return to autograd; other checks cover how they add to slots.
class ComparedOperations final : public kernels::Operations {
 public:
  /// `parameters` give inputs their names; `native` are accrue's kernels. Both are kept by
  /// reference.
  ComparedOperations(const NamedParameters& parameters, const kernels::Operations& native)
      : parameters_(parameters), native_(native) {}

  /// The results, valid when the pass's backward is over.
  const std::vector<OperationResult>& results() const { return results_; }

  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    kernels::PreparedWeight& prepared,
                    const kernels::Remake& remake_x) const override;
  at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            kernels::PreparedWeight& prepared, kernels::LowRank& factors,
                            const at::Tensor& dropped,
                            const kernels::Remake& remake_dropped) const override;
  at::Tensor gelu(const at::Tensor& x) const override;
  at::Tensor gate(kernels::GateActivation activation, const at::Tensor& gate,
                  const at::Tensor& up) const override;
  at::Tensor mlp_gelu(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                      kernels::PreparedWeight& prepared1, const at::Tensor& w2,
                      const at::Tensor& b2, kernels::PreparedWeight& prepared2,
                      const kernels::MlpOptions& options) const override;
  at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate,
                       kernels::PreparedWeight& prepared_gate, const at::Tensor& up,
                       kernels::PreparedWeight& prepared_up, const at::Tensor& down,
                       kernels::PreparedWeight& prepared_down,
                       const kernels::GatedMlpOptions& options) const override;
  at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        double eps, at::ScalarType out) const override;
  std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                      const at::Tensor& bias, double eps,
                                                      at::ScalarType out) const override;
  std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                   const at::Tensor& weight, const at::Tensor& bias,
                                                   double eps, at::ScalarType out) const override;
  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight,
                      const kernels::RmsNormOptions& options, at::ScalarType out) const override;
  std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const kernels::RmsNormOptions& options,
                                                    at::ScalarType out) const override;
  std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight,
                                                 const kernels::RmsNormOptions& options,
                                                 at::ScalarType out) const override;
  at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                    const at::Tensor& sines, const std::vector<SampleSpan>& spans) const override;
  at::Tensor attention(const at::Tensor& qkv, std::int64_t heads,
                       const kernels::AttentionOptions& options,
                       const ForwardContext& context) const override;
  at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const kernels::GroupedAttentionOptions& options,
                               const ForwardContext& context) const override;
  at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                     std::int64_t site) const override;
  at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& y, double probability,
                         const ForwardContext& context, std::int64_t site) const override;
  at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                          const at::Tensor& position_table,
                          const std::vector<SampleSpan>& spans) const override;
  Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets, kernels::PreparedWeight& prepared,
                            const kernels::LinearCrossEntropyOptions& options) const override;
  at::Tensor linear_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                                      const at::Tensor& targets, kernels::PreparedWeight& prepared,
                                      const kernels::LogProbabilityOptions& options) const override;

 private:
  using Tensors = std::vector<at::Tensor>;
  using Run = std::function<Tensors(const kernels::Operations& by, const Tensors& inputs)>;

  struct Operation {
    const char* name;
    Between between = Between::nothing;
  };
  Tensors compared(const Operation& operation, const Tensors& inputs, const Run& run) const;
  void compare(const Operation& operation, const Tensors& inputs, const Run& run,
               const Tensors& upstream) const;
  /// The quantities that determine the rounding bound of a result, besides its size.
  struct Sums {
    bool in_sixteen_bits = false;
    double rows = 1;  ///< of the tensors that go through the operation
    double size = 0;  ///< of a sum over these rows whose terms have random signs; 0: no such sum
  };
  void note(const Operation& operation, const std::string& what, const at::Tensor& native,
            const at::Tensor& plain, const Sums& sums) const;
  const std::string* parameter_of(const at::Tensor& input) const;

  const NamedParameters& parameters_;
  const kernels::Operations& native_;
  mutable std::vector<OperationResult> results_;  ///< operations are const for all that use them
};

}  // namespace accrue::proof
