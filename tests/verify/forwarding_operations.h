#pragma once

#include "kernels/operations.h"

namespace accrue::proof::testing {

/// accrue's operations, as a base class for changes of some of them.
class ForwardingOperations : public kernels::Operations {
 public:
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    kernels::PreparedWeight& prepared,
                    const kernels::Remake& remake) const override {
    return native().linear(x, weight, bias, prepared, remake);
  }
  at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            kernels::PreparedWeight& prepared, kernels::LowRank& factors,
                            const at::Tensor& dropped,
                            const kernels::Remake& remake) const override {
    return native().adapted_linear(x, weight, bias, prepared, factors, dropped, remake);
  }
  at::Tensor gelu(const at::Tensor& x) const override { return native().gelu(x); }
  at::Tensor gate(kernels::GateActivation activation, const at::Tensor& gate,
                  const at::Tensor& up) const override {
    return native().gate(activation, gate, up);
  }
  at::Tensor mlp_gelu(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                      kernels::PreparedWeight& prepared1, const at::Tensor& w2,
                      const at::Tensor& b2, kernels::PreparedWeight& prepared2,
                      const kernels::MlpOptions& options) const override {
    return native().mlp_gelu(x, w1, b1, prepared1, w2, b2, prepared2, options);
  }
  at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate,
                       kernels::PreparedWeight& prepared_gate, const at::Tensor& up,
                       kernels::PreparedWeight& prepared_up, const at::Tensor& down,
                       kernels::PreparedWeight& prepared_down,
                       const kernels::GatedMlpOptions& options) const override {
    return native().mlp_gated(x, gate, prepared_gate, up, prepared_up, down, prepared_down,
                              options);
  }
  at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        double eps, at::ScalarType out) const override {
    return native().layer_norm(x, weight, bias, eps, out);
  }
  std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                      const at::Tensor& bias, double eps,
                                                      at::ScalarType out) const override {
    return native().branch_layer_norm(x, weight, bias, eps, out);
  }
  std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                   const at::Tensor& weight, const at::Tensor& bias,
                                                   double eps, at::ScalarType out) const override {
    return native().add_layer_norm(x, y, weight, bias, eps, out);
  }
  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight,
                      const kernels::RmsNormOptions& options, at::ScalarType out) const override {
    return native().rms_norm(x, weight, options, out);
  }
  std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const kernels::RmsNormOptions& options,
                                                    at::ScalarType out) const override {
    return native().branch_rms_norm(x, weight, options, out);
  }
  std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight,
                                                 const kernels::RmsNormOptions& options,
                                                 at::ScalarType out) const override {
    return native().add_rms_norm(x, y, weight, options, out);
  }
  at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                    const at::Tensor& sines, const std::vector<SampleSpan>& spans) const override {
    return native().rotate(x, heads, cosines, sines, spans);
  }
  at::Tensor attention(const at::Tensor& qkv, std::int64_t heads,
                       const kernels::AttentionOptions& options,
                       const ForwardContext& context) const override {
    return native().attention(qkv, heads, options, context);
  }
  at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const kernels::GroupedAttentionOptions& options,
                               const ForwardContext& context) const override {
    return native().grouped_attention(q, k, v, options, context);
  }
  at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                     std::int64_t site) const override {
    return native().dropout(x, probability, context, site);
  }
  at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& y, double probability,
                         const ForwardContext& context, std::int64_t site) const override {
    return native().add_dropout(x, y, probability, context, site);
  }
  at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                          const at::Tensor& position_table,
                          const std::vector<SampleSpan>& spans) const override {
    return native().embed_tokens(ids, token_table, position_table, spans);
  }
  Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets, kernels::PreparedWeight& prepared,
                            const kernels::LinearCrossEntropyOptions& options) const override {
    return native().linear_cross_entropy(hidden, weight, targets, prepared, options);
  }
  at::Tensor linear_log_probabilities(
      const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
      kernels::PreparedWeight& prepared,
      const kernels::LogProbabilityOptions& options) const override {
    return native().linear_log_probabilities(hidden, weight, targets, prepared, options);
  }

 protected:
  static const kernels::Operations& native() { return kernels::native_operations(); }
};

}  // namespace accrue::proof::testing
