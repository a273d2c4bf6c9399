#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "accrue/core/error.h"
#include "kernels/grouped_attention_reference.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace grouped_attention_test {

using namespace accrue::testing;

const ForwardContext evaluating{.training = false};

class GroupedAttention : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType dtype() const { return GetParam(); }

  at::Tensor upstream(const at::Tensor& like) const {
    at::manual_seed(9);
    return at::randn(like.sizes(), at::kDouble).to(dtype());
  }
  /// The result and the three gradients, against the reference.
  void expect_the_reference(const GroupedInput& input, const GroupedAttentionOptions& options,
                            const ForwardContext& context, std::int64_t terms) const {
    const at::Tensor grad = upstream(input.q);
    const GroupedResult actual = our_grouped(input, grad, options, context),
                        expected = grouped_reference(input, grad, options, context);
    EXPECT_EQ(actual.out.scalar_type(), dtype());
    EXPECT_TRUE(close(actual.out, expected.out, dtype(), terms));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(close(actual.grads.all()[i], expected.grads.all()[i], dtype(), terms)) << i;
  }
};
INSTANTIATE_TEST_SUITE_P(All, GroupedAttention,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(GroupedAttention, MatchesSoftmaxWrittenOut) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {4, 4}, {6, 2}, {3, 1}})
    for (const bool causal : {true, false})
      for (const std::int64_t length : {1, 7, 64, 65, 200})
        for (const std::int64_t width : {5, 16, 64}) {
          SCOPED_TRACE(::testing::Message() << heads << "/" << kv_heads << " heads, T " << length
                                            << ", W " << width << (causal ? ", causal" : ""));
          const GroupedAttentionOptions options{
              .heads = heads, .kv_heads = kv_heads, .causal = causal};
          expect_the_reference(grouped_projections(2, length, options, width, dtype()), options,
                               evaluating, heads / kv_heads * (length + width));
        }
}

TEST_P(GroupedAttention, SeesAWindowOfKeys) {
  for (const std::int64_t length : {1, 9, 64, 131, 300})
    for (const std::int64_t window : {1, 2, 7, 8, 9, 31, 32, 33, 64, 100, 299, 300, 1000}) {
      SCOPED_TRACE(::testing::Message() << "T " << length << ", window " << window);
      const GroupedAttentionOptions options{.heads = 4, .kv_heads = 2, .window = window};
      expect_the_reference(grouped_projections(1, length, options, 16, dtype()), options,
                           evaluating, 2 * (length + 16));
    }
}

TEST_P(GroupedAttention, CapsAndScalesScores) {
  for (const double soft_cap : {0.0, 2.0, 50.0})
    for (const double scale : {0.0, 0.4})
      for (const std::int64_t window : {0, 20})
        for (const bool causal : {true, false}) {
          if (window > 0 && !causal) continue;
          SCOPED_TRACE(::testing::Message() << "cap " << soft_cap << ", scale " << scale);
          const GroupedAttentionOptions options{.heads = 4,
                                                .kv_heads = 2,
                                                .causal = causal,
                                                .window = window,
                                                .soft_cap = soft_cap,
                                                .scale = scale};
          expect_the_reference(grouped_projections(2, 70, options, 16, dtype()), options,
                               evaluating, 8 * (70 + 16));
        }
}

ForwardContext packed_context() {
  ForwardContext context{
      .training = true, .seed = 77, .window = 5, .sample_ids = {40, 7, 1LL << 40}};
  context.spans = {{40, 0, 0, 70}, {7, 0, 73, 90}, {1LL << 40, 1, 0, 96}};
  return context;
}

TEST_P(GroupedAttention, DropsByHeadOfQueriesAndKeepsSamplesApart) {
  const ForwardContext context = packed_context();
  for (const double dropout : {0.0, 0.4})
    for (const std::int64_t window : {0, 30})
      for (const double soft_cap : {0.0, 3.0}) {
        SCOPED_TRACE(::testing::Message() << dropout << ", " << window << ", " << soft_cap);
        const GroupedAttentionOptions options{.heads = 6,
                                              .kv_heads = 2,
                                              .window = window,
                                              .soft_cap = soft_cap,
                                              .dropout = dropout,
                                              .site = 4};
        const GroupedInput input = grouped_projections(2, 96, options, 16, dtype());
        expect_the_reference(input, options, context, 12 * (96 + 16));
        const GroupedResult result = our_grouped(input, upstream(input.q), options, context);
        for (const auto& [begin, end] : {std::pair(70, 73), std::pair(90, 96)})
          for (const at::Tensor& tensor :
               {result.out, result.grads.q, result.grads.k, result.grads.v})
            EXPECT_TRUE((tensor[0].slice(0, begin, end) == 0).all().item<bool>());
      }
}

TEST_P(GroupedAttention, ComparatorSeesWhatIsLeftOut) {
  const GroupedAttentionOptions options{
      .heads = 4, .kv_heads = 2, .window = 20, .soft_cap = 2, .dropout = 0.2, .site = 4};
  const ForwardContext context{.training = true, .seed = 7, .window = 5, .sample_ids = {40, 7}};
  const GroupedInput input = grouped_projections(2, 70, options, 16, dtype());
  const at::Tensor grad = upstream(input.q);
  const GroupedResult actual = our_grouped(input, grad, options, context);
  const auto differs = [&](auto change) {
    GroupedAttentionOptions other = options;
    change(other);
    const GroupedResult wrong = grouped_reference(input, grad, other, context);
    EXPECT_FALSE(close(actual.out, wrong.out, dtype(), 8 * (70 + 16)));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_FALSE(close(actual.grads.all()[i], wrong.grads.all()[i], dtype(), 8 * (70 + 16))) << i;
  };
  differs([](auto& other) { other.causal = false; });
  differs([](auto& other) { other.window = 0; });
  differs([](auto& other) { other.window = 19; });
  differs([](auto& other) { other.soft_cap = 0; });
  differs([](auto& other) { other.scale = 0.5; });
  differs([](auto& other) { other.dropout = 0; });
  differs([](auto& other) { other.site = 5; });
  // A query that attends to its neighbour group's keys.
  const auto turned = [&](const at::Tensor& x) { return x.roll(16, 2); };
  const GroupedResult wrong =
      grouped_reference({input.q, turned(input.k), turned(input.v)}, grad, options, context);
  EXPECT_FALSE(close(actual.out, wrong.out, dtype(), 8 * (70 + 16)));
}

/// Without shared heads it is attention of packed projections, to the bit.
TEST_P(GroupedAttention, IsPackedAttentionWhereNoHeadsAreShared) {
  const GroupedAttentionOptions options{.heads = 3, .kv_heads = 3, .dropout = 0.2, .site = 4};
  const ForwardContext context{.training = true, .seed = 7, .window = 5, .sample_ids = {40, 7}};
  const GroupedInput input = grouped_projections(2, 131, options, 16, dtype());
  const at::Tensor grad = upstream(input.q);
  const GroupedResult apart = our_grouped(input, grad, options, context);
  const AttentionResult packed =
      ours(at::cat(input.all(), 2), grad, 3, {.dropout = 0.2, .site = 4}, context);
  EXPECT_TRUE(at::equal(apart.out, packed.out));
  EXPECT_TRUE(at::equal(at::cat(apart.grads.all(), 2), packed.grad));
}

/// A packed sample's bits are those of the sample alone, in any packing.
TEST_P(GroupedAttention, DoesEachSampleByItself) {
  for (const std::int64_t window : {0, 30}) {
    const GroupedAttentionOptions options{
        .heads = 4, .kv_heads = 2, .window = window, .dropout = 0.3, .site = 4};
    const GroupedInput input = grouped_projections(2, 96, options, 16, dtype());
    const at::Tensor grad = upstream(input.q);
    const ForwardContext context = packed_context();
    const GroupedResult packed = our_grouped(input, grad, options, context);
    for (const SampleSpan& span : context.spans) {
      const auto part = [&](const at::Tensor& x) {
        return x[span.row].slice(0, span.begin, span.end).unsqueeze(0).contiguous();
      };
      ForwardContext alone = context;
      alone.spans.clear();
      alone.sample_ids = {span.sample_id};
      const GroupedResult single = our_grouped(input.each(part), part(grad), options, alone);
      EXPECT_TRUE(at::equal(single.out, part(packed.out)));
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(at::equal(single.grads.all()[i], part(packed.grads.all()[i]))) << i;
    }
  }
}

TEST_P(GroupedAttention, HasTheSameBitsForAnyNumberOfThreads) {
  for (const std::int64_t batch : {1, 3}) {
    const GroupedAttentionOptions options{.heads = 4, .kv_heads = 1, .window = 50, .soft_cap = 5};
    const GroupedInput input = grouped_projections(batch, 90, options, 16, dtype());
    const at::Tensor grad = upstream(input.q);
    const int threads = at::get_num_threads();
    const GroupedResult together = our_grouped(input, grad, options, evaluating);
    at::set_num_threads(1);
    const GroupedResult alone = our_grouped(input, grad, options, evaluating);
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(alone.out, together.out));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(at::equal(alone.grads.all()[i], together.grads.all()[i])) << i;
  }
}

TEST_P(GroupedAttention, ReadsStridedInputAndRowsOfOnePosition) {
  const GroupedAttentionOptions options{.heads = 4, .kv_heads = 2};
  const GroupedInput input = grouped_projections(3, 40, options, 16, dtype());
  const auto strided = [](const at::Tensor& x) {
    at::Tensor wide = at::zeros({x.size(0), x.size(1), x.size(2) + 3}, x.options());
    at::Tensor part = wide.narrow(2, 1, x.size(2));
    return part.copy_(x);
  };
  EXPECT_TRUE(at::equal(our_grouped(input.each(strided), input.q, options, evaluating).out,
                        our_grouped(input, input.q, options, evaluating).out));
  // The stride of a dimension with one element is meaningless.
  const auto one = [](const at::Tensor& x) { return x.narrow(1, 0, 1).contiguous(); };
  const auto odd = [&](const at::Tensor& x) {
    return at::as_strided(one(x), {3, 1, x.size(2)}, {x.size(2), 7, 1});
  };
  const GroupedInput rows = input.each(one), odd_rows = input.each(odd);
  EXPECT_TRUE(at::equal(grouped_attention(odd_rows.q, odd_rows.k, odd_rows.v, options, evaluating),
                        grouped_attention(rows.q, rows.k, rows.v, options, evaluating)));
}

TEST_P(GroupedAttention, LooksNeitherAheadNorBeyondTheWindow) {
  for (const double soft_cap : {0.0, 5.0}) {
    const GroupedAttentionOptions options{
        .heads = 4, .kv_heads = 2, .window = 40, .soft_cap = soft_cap};
    const GroupedInput input = grouped_projections(1, 100, options, 16, dtype());
    const at::Tensor before = grouped_attention(input.q, input.k, input.v, options, evaluating);
    for (const at::Tensor& tensor : {input.k, input.v})
      for (const auto& [begin, end] : {std::pair(0, 20), std::pair(90, 100)})
        tensor.slice(1, begin, end).fill_(1e3);
    const at::Tensor after = grouped_attention(input.q, input.k, input.v, options, evaluating);
    EXPECT_TRUE(at::equal(before.slice(1, 59, 90), after.slice(1, 59, 90)));
    for (std::int64_t query = 0; query < 100; ++query)
      EXPECT_EQ(at::equal(before.select(1, query), after.select(1, query)),
                query >= 59 && query < 90)
          << query;
  }
}

TEST_P(GroupedAttention, ShowsNaN) {
  const GroupedAttentionOptions options{.heads = 4, .kv_heads = 2, .window = 8, .soft_cap = 5};
  for (const std::size_t part : {0, 1, 2}) {
    const GroupedInput input = grouped_projections(1, 20, options, 16, dtype());
    input.all()[part][0][3][0] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(grouped_attention(input.q, input.k, input.v, options, evaluating)[0][3]
                    .isnan()
                    .any()
                    .item<bool>())
        << part;
  }
}

TEST(GroupedAttention, RefusesWhatDoesNotFit) {
  const at::Tensor q = at::ones({1, 3, 24}), k = at::ones({1, 3, 12});
  const auto run = [&](const GroupedAttentionOptions& options, const at::Tensor& keys) {
    grouped_attention(q, keys, keys, options, evaluating);
  };
  EXPECT_NO_THROW(run({.heads = 4, .kv_heads = 2}, k));
  EXPECT_THROW(run({.heads = 4, .kv_heads = 3}, k), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 0}, k), Error);
  EXPECT_THROW(run({.heads = 2, .kv_heads = 2}, k), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 2}, k.to(at::kDouble)), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 2}, at::ones({1, 4, 12})), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 2, .causal = false, .window = 2}, k), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 2, .window = -1}, k), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 2, .soft_cap = -1}, k), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 2, .scale = NAN}, k), Error);
  EXPECT_THROW(run({.heads = 4, .kv_heads = 2, .dropout = 1}, k), Error);
}

}  // namespace grouped_attention_test
}  // namespace accrue::kernels
