// The operations of the Llama family agree between ATen's plain operators and accrue's kernels.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "kernels/gradients.h"
#include "kernels/plain/plain_operations.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace plain_kernels_test {

using testing::close;
using testing::leaf;
using Tensors = std::vector<at::Tensor>;

/// Results, and the gradients of all inputs for one upstream gradient.
using Operation = std::function<Tensors(const Operations& by, const Tensors& inputs)>;

Tensors run(const Operations& by, const Operation& operation, const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  Tensors all = operation(by, leaves), upstream;
  for (std::size_t i = 0; i < all.size(); ++i)
    upstream.push_back(leaf(all[i].sizes(), at::kDouble, 90 + i).detach().to(all[i].scalar_type()));
  const Tensors gradients = torch::autograd::grad(all, leaves, upstream);
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

class PlainKernels : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType dtype() const { return GetParam(); }
  at::ScalarType master() const { return dtype() == at::kDouble ? dtype() : at::kFloat; }

  void expect_the_same(const Operation& operation, const Tensors& inputs,
                       std::int64_t terms) const {
    const Tensors native = run(native_operations(), operation, inputs),
                  plain = run(plain_operations(), operation, inputs);
    ASSERT_EQ(native.size(), plain.size());
    for (std::size_t i = 0; i < native.size(); ++i) {
      EXPECT_EQ(native[i].scalar_type(), plain[i].scalar_type()) << i;
      EXPECT_TRUE(close(native[i], plain[i], dtype(), terms)) << i;
      EXPECT_FALSE(close(native[i] * 1.03, plain[i], dtype(), terms)) << i;
    }
  }

  ForwardContext context_ = {.training = true,
                             .seed = 3,
                             .window = 2,
                             .sample_ids = {4, 9, 2},
                             .spans = {{4, 0, 1, 9}, {9, 0, 9, 20}, {2, 1, 0, 12}}};
};
INSTANTIATE_TEST_SUITE_P(All, PlainKernels,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(PlainKernels, NormaliseByTheRootMeanSquare) {
  const RmsNormOptions options{.eps = 1e-5, .offset = 1};
  const at::Tensor x = leaf({3, 7, 24}, master(), 1), y = leaf({3, 7, 24}, dtype(), 2),
                   weight = leaf({24}, master(), 3);
  expect_the_same(
      [&](const Operations& by, const Tensors& in) {
        return Tensors{by.rms_norm(in[0], in[1], options, dtype())};
      },
      {y, weight}, 400);
  expect_the_same(
      [&](const Operations& by, const Tensors& in) {
        const auto [stream, normal] = by.branch_rms_norm(in[0], in[1], options, dtype());
        return Tensors{stream, normal};
      },
      {x, weight}, 400);
  expect_the_same(
      [&](const Operations& by, const Tensors& in) {
        const auto [sum, normal] = by.add_rms_norm(in[0], in[1], in[2], options, dtype());
        return Tensors{sum, normal};
      },
      {x, y, weight}, 400);
}

TEST_P(PlainKernels, Rotate) {
  const at::Tensor cosines = leaf({20, 4}, master(), 1).detach(),
                   sines = leaf({20, 4}, master(), 2).detach();
  for (const auto& spans : {std::vector<SampleSpan>{}, context_.spans})
    expect_the_same(
        [&](const Operations& by, const Tensors& in) {
          return Tensors{by.rotate(in[0], 3, cosines, sines, spans)};
        },
        {leaf({2, 20, 24}, dtype(), 3)}, 4);
}

TEST_P(PlainKernels, FeedForwardThroughAGate) {
  PreparedWeight gate, up, down;
  for (const GateActivation activation : {GateActivation::silu, GateActivation::gelu_tanh})
    expect_the_same(
        [&](const Operations& by, const Tensors& in) {
          return Tensors{
              by.mlp_gated(in[0], in[1], gate, in[2], up, in[3], down, {.activation = activation})};
        },
        {leaf({3, 7, 12}, dtype(), 1), leaf({20, 12}, master(), 2, 0.3),
         leaf({20, 12}, master(), 3, 0.3), leaf({12, 20}, master(), 4, 0.3)},
        64);
}

TEST_P(PlainKernels, AttendInGroups) {
  for (const bool packed : {false, true})
    for (const double dropout : {0.0, 0.3})
      for (const std::int64_t window : {0, 5})
        for (const double soft_cap : {0.0, 2.0}) {
          SCOPED_TRACE(::testing::Message()
                       << packed << ", " << dropout << ", " << window << ", " << soft_cap);
          ForwardContext context = context_;
          if (!packed) context.spans.clear();
          context.sample_ids = {4, 9};
          const GroupedAttentionOptions options{.heads = 4,
                                                .kv_heads = 2,
                                                .window = window,
                                                .soft_cap = soft_cap,
                                                .scale = 0.3,
                                                .dropout = dropout,
                                                .site = 6};
          expect_the_same(
              [&](const Operations& by, const Tensors& in) {
                return Tensors{by.grouped_attention(in[0], in[1], in[2], options, context)};
              },
              {leaf({2, 20, 32}, dtype(), 1), leaf({2, 20, 16}, dtype(), 2),
               leaf({2, 20, 16}, dtype(), 3)},
              40);
        }
}

TEST_P(PlainKernels, EmbedWithoutPositions) {
  at::manual_seed(7);
  const at::Tensor ids = at::randint(10, {2, 20}, at::kLong);
  for (const auto& spans : {std::vector<SampleSpan>{}, context_.spans})
    expect_the_same(
        [&](const Operations& by, const Tensors& in) {
          return Tensors{by.embed_tokens(ids, in[0], {}, spans)};
        },
        {leaf({12, 24}, master(), 1)}, 40);
}

TEST_P(PlainKernels, CapLogits) {
  PreparedWeight prepared;
  const at::Tensor targets = at::arange(21).remainder(11).view({3, 7});
  expect_the_same(
      [&](const Operations& by, const Tensors& in) {
        const LinearCrossEntropyOptions options{
            .loss = {.label_smoothing = 0.1, .z_loss = 0.01, .soft_cap = 3}};
        return Tensors{by.linear_cross_entropy(in[0], in[1], targets, prepared, options).sum};
      },
      {leaf({3, 7, 12}, dtype(), 1), leaf({11, 12}, master(), 2)}, 64);
}

}  // namespace plain_kernels_test
}  // namespace accrue::kernels
