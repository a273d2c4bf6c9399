#include "kernels/operations.h"

#include "accrue/kernels/dropout.h"
#include "accrue/kernels/embedding.h"
#include "accrue/kernels/norm.h"
#include "accrue/kernels/rotary.h"

namespace accrue::kernels {
namespace {

class NativeOperations final : public Operations {
 public:
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    PreparedWeight& prepared, const Remake& remake_x) const override {
    return kernels::linear(x, weight, bias, prepared, remake_x);
  }
  at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            PreparedWeight& prepared, LowRank& factors, const at::Tensor& dropped,
                            const Remake& remake_dropped) const override {
    return kernels::adapted_linear(x, weight, bias, prepared, factors, dropped, remake_dropped);
  }
  at::Tensor gelu(const at::Tensor& x) const override { return kernels::gelu(x); }
  at::Tensor gate(GateActivation activation, const at::Tensor& gate,
                  const at::Tensor& up) const override {
    return kernels::gate(activation, gate, up);
  }
  at::Tensor mlp_gelu(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                      PreparedWeight& prepared1, const at::Tensor& w2, const at::Tensor& b2,
                      PreparedWeight& prepared2, const MlpOptions& options) const override {
    return kernels::mlp_gelu(x, w1, b1, prepared1, w2, b2, prepared2, options);
  }
  at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate, PreparedWeight& prepared_gate,
                       const at::Tensor& up, PreparedWeight& prepared_up, const at::Tensor& down,
                       PreparedWeight& prepared_down,
                       const GatedMlpOptions& options) const override {
    return kernels::mlp_gated(x, gate, prepared_gate, up, prepared_up, down, prepared_down,
                              options);
  }
  at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        double eps, at::ScalarType out) const override {
    return kernels::layer_norm(x, weight, bias, eps, out);
  }
  std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                      const at::Tensor& bias, double eps,
                                                      at::ScalarType out) const override {
    return kernels::branch_layer_norm(x, weight, bias, eps, out);
  }
  std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                   const at::Tensor& weight, const at::Tensor& bias,
                                                   double eps, at::ScalarType out) const override {
    return kernels::add_layer_norm(x, y, weight, bias, eps, out);
  }
  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options,
                      at::ScalarType out) const override {
    return kernels::rms_norm(x, weight, options, out);
  }
  std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const RmsNormOptions& options,
                                                    at::ScalarType out) const override {
    return kernels::branch_rms_norm(x, weight, options, out);
  }
  std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight,
                                                 const RmsNormOptions& options,
                                                 at::ScalarType out) const override {
    return kernels::add_rms_norm(x, y, weight, options, out);
  }
  at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                    const at::Tensor& sines, const std::vector<SampleSpan>& spans) const override {
    return kernels::rotate(x, heads, cosines, sines, spans);
  }
  at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                       const ForwardContext& context) const override {
    return kernels::attention(qkv, heads, options, context);
  }
  at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const GroupedAttentionOptions& options,
                               const ForwardContext& context) const override {
    return kernels::grouped_attention(q, k, v, options, context);
  }
  at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                     std::int64_t site) const override {
    return kernels::dropout(x, probability, context, site);
  }
  at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& y, double probability,
                         const ForwardContext& context, std::int64_t site) const override {
    return kernels::add_dropout(x, y, probability, context, site);
  }
  at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                          const at::Tensor& position_table,
                          const std::vector<SampleSpan>& spans) const override {
    return kernels::embed_tokens(ids, token_table, position_table, spans);
  }
  Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets, PreparedWeight& prepared,
                            const LinearCrossEntropyOptions& options) const override {
    return kernels::linear_cross_entropy(hidden, weight, targets, prepared, options);
  }
  at::Tensor linear_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                                      const at::Tensor& targets, PreparedWeight& prepared,
                                      const LogProbabilityOptions& options) const override {
    return kernels::linear_log_probabilities(hidden, weight, targets, prepared, options);
  }
};

}  // namespace

const Operations& native_operations() {
  static const NativeOperations native;
  return native;
}

const Operations& operations_of(const ForwardContext& context) {
  return context.operations ? *context.operations : native_operations();
}

}  // namespace accrue::kernels
