// Each operation of the Llama family compared separately: correct kernels are within the bounds,
// and a fault in any of them is detected, in every precision.
#include "verify/operations/compared_operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "forwarding_operations.h"
#include "scaled_gradient.h"

namespace accrue::proof {
namespace {

using testing::ScaledGradient;
using Tensors = std::vector<at::Tensor>;

/// accrue's operations; the gradient of the first input is multiplied by `factor`.
class ScaledOperations final : public testing::ForwardingOperations {
 public:
  explicit ScaledOperations(double factor) : factor_(factor) {}

  at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate,
                       kernels::PreparedWeight& prepared_gate, const at::Tensor& up,
                       kernels::PreparedWeight& prepared_up, const at::Tensor& down,
                       kernels::PreparedWeight& prepared_down,
                       const kernels::GatedMlpOptions& options) const override {
    return native().mlp_gated(scaled(x), gate, prepared_gate, up, prepared_up, down, prepared_down,
                              options);
  }
  at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight,
                      const kernels::RmsNormOptions& options, at::ScalarType out) const override {
    return native().rms_norm(scaled(x), weight, options, out);
  }
  std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const kernels::RmsNormOptions& options,
                                                    at::ScalarType out) const override {
    return native().branch_rms_norm(scaled(x), weight, options, out);
  }
  std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight,
                                                 const kernels::RmsNormOptions& options,
                                                 at::ScalarType out) const override {
    return native().add_rms_norm(scaled(x), y, weight, options, out);
  }
  at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                    const at::Tensor& sines, const std::vector<SampleSpan>& spans) const override {
    return native().rotate(scaled(x), heads, cosines, sines, spans);
  }
  at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const kernels::GroupedAttentionOptions& options,
                               const ForwardContext& context) const override {
    return native().grouped_attention(scaled(q), k, v, options, context);
  }
  at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                          const at::Tensor& position_table,
                          const std::vector<SampleSpan>& spans) const override {
    return native().embed_tokens(ids, scaled(token_table), position_table, spans);
  }

 private:
  at::Tensor scaled(const at::Tensor& x) const {
    return factor_ == 1 ? x : ScaledGradient::apply(x, factor_);
  }

  double factor_;
};

at::Tensor drawn(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed,
                 double scale = 1) {
  at::manual_seed(seed);
  return (at::randn(sizes, at::kDouble) * scale).to(dtype).requires_grad_(true);
}

class OperationsOfLlamas : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  using Call = std::function<Tensors(const kernels::Operations&, const Tensors&)>;

  at::ScalarType dtype() const { return GetParam(); }
  at::ScalarType master() const { return dtype() == at::kDouble ? dtype() : at::kFloat; }

  /// The worst comparison of one call, by its ratio to the bound.
  static double worst(double factor, const NamedParameters& parameters, const Tensors& inputs,
                      const Call& call) {
    const ScaledOperations native(factor);
    const ComparedOperations operations(parameters, native);
    at::Tensor sum = at::zeros({}, at::kDouble);
    std::uint64_t seed = 50;
    for (const at::Tensor& result : call(operations, inputs))
      sum = sum +
            (result.to(at::kDouble) * drawn(result.sizes(), at::kDouble, ++seed).detach()).sum();
    sum.backward();
    // Each result, and each required gradient.
    EXPECT_GT(operations.results().size(), inputs.size());
    return std::ranges::max_element(
               operations.results(), {},
               [](const OperationResult& result) { return result.worst.ratio(); })
        ->worst.ratio();
  }
  /// Inputs from the second on are parameters, and their gradients have names.
  static void expect_compared(const Tensors& inputs, const Call& call) {
    NamedParameters parameters;
    for (std::size_t i = 1; i < inputs.size(); ++i)
      parameters.push_back({"p" + std::to_string(i), inputs[i]});
    EXPECT_LE(worst(1, parameters, inputs, call), 1);
    EXPECT_GT(worst(1.05, parameters, inputs, call), 1);
  }
};
INSTANTIATE_TEST_SUITE_P(All, OperationsOfLlamas,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(OperationsOfLlamas, NormsAreCompared) {
  const kernels::RmsNormOptions options{.eps = 1e-5, .offset = 1};
  const Tensors inputs{drawn({2, 30, 48}, master(), 1), drawn({48}, master(), 2)};
  expect_compared(inputs, [&](const kernels::Operations& by, const Tensors& in) {
    return Tensors{by.rms_norm(in[0], in[1], options, dtype())};
  });
  expect_compared(inputs, [&](const kernels::Operations& by, const Tensors& in) {
    const auto [stream, normal] = by.branch_rms_norm(in[0], in[1], options, dtype());
    return Tensors{stream, normal};
  });
  const at::Tensor y = drawn({2, 30, 48}, dtype(), 3);
  expect_compared(inputs, [&](const kernels::Operations& by, const Tensors& in) {
    const auto [sum, normal] = by.add_rms_norm(in[0], y, in[1], options, dtype());
    return Tensors{sum, normal};
  });
}

TEST_P(OperationsOfLlamas, RotationsAreCompared) {
  const at::Tensor cosines = drawn({30, 8}, master(), 1).detach(),
                   sines = drawn({30, 8}, master(), 2).detach();
  expect_compared({drawn({2, 30, 48}, dtype(), 3)},
                  [&](const kernels::Operations& by, const Tensors& in) {
                    return Tensors{by.rotate(in[0], 3, cosines, sines, {})};
                  });
}

TEST_P(OperationsOfLlamas, GatedFeedForwardPartsAreCompared) {
  kernels::PreparedWeight gate, up, down;
  for (const auto activation : {kernels::GateActivation::silu, kernels::GateActivation::gelu_tanh})
    expect_compared({drawn({2, 30, 48}, dtype(), 1), drawn({64, 48}, master(), 2, 0.2),
                     drawn({64, 48}, master(), 3, 0.2), drawn({48, 64}, master(), 4, 0.2)},
                    [&](const kernels::Operations& by, const Tensors& in) {
                      return Tensors{by.mlp_gated(in[0], in[1], gate, in[2], up, in[3], down,
                                                  {.activation = activation})};
                    });
}

TEST_P(OperationsOfLlamas, GroupedAttentionIsCompared) {
  const ForwardContext context{.training = true, .seed = 3, .window = 2, .sample_ids = {4, 9}};
  for (const double dropout : {0.0, 0.2})
    for (const std::int64_t window : {0, 7}) {
      const kernels::GroupedAttentionOptions options{
          .heads = 4, .kv_heads = 2, .window = window, .dropout = dropout, .site = 1};
      expect_compared({drawn({2, 70, 64}, dtype(), 1), drawn({2, 70, 32}, dtype(), 2),
                       drawn({2, 70, 32}, dtype(), 3)},
                      [&](const kernels::Operations& by, const Tensors& in) {
                        return Tensors{by.grouped_attention(in[0], in[1], in[2], options, context)};
                      });
    }
}

TEST_P(OperationsOfLlamas, EmbeddingsWithoutPositionsAreCompared) {
  const at::Tensor ids = at::arange(60).remainder(11).view({2, 30});
  expect_compared({drawn({12, 48}, master(), 1)},
                  [&](const kernels::Operations& by, const Tensors& in) {
                    return Tensors{by.embed_tokens(ids, in[0], {}, {})};
                  });
}

}  // namespace
}  // namespace accrue::proof
