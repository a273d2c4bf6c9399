// Attention's dropout and packing depend on the sample and not on its place.

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>

#include "accrue/core/error.h"
#include "accrue/kernels/attention.h"
#include "kernels/attention_reference.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace attention_samples_test {

using namespace accrue::testing;

constexpr std::int64_t heads = 3;

ForwardContext rows_of(std::vector<std::int64_t> samples) {
  return {.training = true, .seed = 77, .window = 5, .sample_ids = std::move(samples)};
}

/// Row 0: samples 40 and 7 with padding between and after them; row 1: sample 1 << 40, whole.
ForwardContext packed_context() {
  ForwardContext context = rows_of({40, 7, 1LL << 40});
  context.spans = {{40, 0, 0, 70}, {7, 0, 73, 90}, {1LL << 40, 1, 0, 96}};
  return context;
}

at::Tensor upstream(std::int64_t batch, std::int64_t length, std::int64_t channels,
                    at::ScalarType dtype) {
  return packed_projections(batch, length, channels, dtype, 2).narrow(2, 0, channels);
}

class AttentionOfSamples : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(All, AttentionOfSamples,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(AttentionOfSamples, DropsWhatTheReferenceDrops) {
  for (const bool causal : {true, false})
    for (const std::int64_t length : {1, 9, 64, 131})
      for (const double probability : {0.1, 0.6}) {
        SCOPED_TRACE(::testing::Message() << "T " << length << ", p " << probability);
        const at::Tensor qkv = packed_projections(2, length, heads * 16, GetParam());
        const at::Tensor grad = upstream(2, length, heads * 16, GetParam());
        const AttentionOptions options{.causal = causal, .dropout = probability, .site = 4};
        const ForwardContext context = rows_of({12, 3});
        const AttentionResult actual = ours(qkv, grad, heads, options, context),
                              expected = reference(qkv, grad, heads, options, context);
        EXPECT_TRUE(close(actual.out, expected.out, GetParam(), 4 * (length + 16)));
        EXPECT_TRUE(close(actual.grad, expected.grad, GetParam(), 4 * (length + 16)));
      }
}

TEST_P(AttentionOfSamples, PackedIsBlockDiagonalAndPaddingIsZero) {
  const ForwardContext context = packed_context();
  const at::Tensor qkv = packed_projections(2, 96, heads * 16, GetParam());
  const at::Tensor grad = upstream(2, 96, heads * 16, GetParam());
  for (const bool causal : {true, false})
    for (const double probability : {0.0, 0.4}) {
      const AttentionOptions options{.causal = causal, .dropout = probability, .site = 4};
      const AttentionResult actual = ours(qkv, grad, heads, options, context),
                            expected = reference(qkv, grad, heads, options, context);
      EXPECT_TRUE(close(actual.out, expected.out, GetParam(), 4 * (96 + 16)));
      EXPECT_TRUE(close(actual.grad, expected.grad, GetParam(), 4 * (96 + 16)));
      for (const auto& [begin, end] : {std::pair(70, 73), std::pair(90, 96)}) {
        EXPECT_TRUE((actual.out[0].slice(0, begin, end) == 0).all().item<bool>());
        EXPECT_TRUE((actual.grad[0].slice(0, begin, end) == 0).all().item<bool>());
      }
    }
}

TEST_P(AttentionOfSamples, ComparatorSeesAnotherMaskAndAnUnpackedRow) {
  const at::Tensor qkv = packed_projections(2, 96, heads * 16, GetParam());
  const at::Tensor grad = upstream(2, 96, heads * 16, GetParam());
  const AttentionOptions options{.dropout = 0.4, .site = 4};
  const AttentionResult actual = ours(qkv, grad, heads, options, packed_context());
  const auto differs = [&](const AttentionOptions& other, const ForwardContext& context) {
    const AttentionResult wrong = reference(qkv, grad, heads, other, context);
    EXPECT_FALSE(close(actual.out, wrong.out, GetParam(), 4 * (96 + 16)));
    EXPECT_FALSE(close(actual.grad, wrong.grad, GetParam(), 4 * (96 + 16)));
  };
  differs({.dropout = 0.4, .site = 5}, packed_context());
  differs({.dropout = 0, .site = 4}, packed_context());
  differs(options, rows_of({40, 1LL << 40}));
  ForwardContext other = packed_context();
  other.spans[1].sample_id = 8;
  differs(options, other);
}

/// The probabilities after dropout [B, heads, T, T]: the outputs where values are unit vectors, for
/// as many keys at a time as a head is wide.
at::Tensor probabilities_of(const at::Tensor& qkv, const AttentionOptions& options,
                            const ForwardContext& context) {
  const std::int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / (3 * heads);
  const at::Tensor input = qkv.clone();
  const at::Tensor values = input.view({batch, length, 3, heads, width}).select(2, 2);
  const at::Tensor probabilities = at::zeros({batch, heads, length, length}, qkv.options());
  for (std::int64_t begin = 0; begin < length; begin += width) {
    const std::int64_t count = std::min(width, length - begin);
    values.zero_();
    values.narrow(1, begin, count).copy_(at::eye(count, width).unsqueeze(1));
    const at::Tensor out =
        attention(input, heads, options, context).view({batch, length, heads, width});
    probabilities.narrow(3, begin, count).copy_(out.narrow(3, 0, count).transpose(1, 2));
  }
  return probabilities;
}

/// The elements of [B, heads, T, T] that are visible and not dropped.
at::Tensor kept_by(const AttentionOptions& options, const ForwardContext& context,
                   std::int64_t batch, std::int64_t length) {
  const ReferenceMask mask(options.dropout, context, options.site);
  const at::Tensor kept = at::zeros({batch, heads, length, length}, at::kBool);
  for (const SampleSpan& span : context.spans)
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t size = span.end - span.begin;
      const at::Tensor factors = mask.of_head(span.sample_id, head, size, size);
      kept[span.row][head]
          .narrow(0, span.begin, size)
          .narrow(1, span.begin, size)
          .copy_((options.causal ? factors.tril() : factors).ne(0));
    }
  return kept;
}

/// To the element, in every precision: a tolerance would let a small probability pass.
TEST_P(AttentionOfSamples, GivesDroppedKeysExactlyNothing) {
  const ForwardContext context = packed_context();
  for (const bool causal : {true, false})
    for (const std::int64_t width : {5, 33}) {
      SCOPED_TRACE(::testing::Message() << "D " << width << (causal ? ", causal" : ""));
      AttentionOptions options{.causal = causal, .dropout = 0.4, .site = 4};
      const at::Tensor qkv = packed_projections(2, 96, heads * width, GetParam());
      const at::Tensor counts = probabilities_of(qkv, options, context).ne(0);
      EXPECT_TRUE(at::equal(counts, kept_by(options, context, 2, 96)));
      options.site = 5;
      EXPECT_FALSE(at::equal(counts, kept_by(options, context, 2, 96)));
    }
}

struct Sample {
  at::Tensor qkv, grad;  // grad: upstream
};

/// Output and gradient of each sample, cut out of the place that its context gave it.
std::map<std::int64_t, AttentionResult> by_sample(const std::map<std::int64_t, Sample>& inputs,
                                                  const ForwardContext& context, std::int64_t rows,
                                                  std::int64_t length,
                                                  const AttentionOptions& options) {
  // Uncovered elements must not matter, not even if they are NaN.
  const auto nothing = [&](const at::Tensor& like) {
    return at::full({rows, length, like.size(1)}, std::numeric_limits<double>::quiet_NaN(),
                    like.options());
  };
  at::Tensor qkv = nothing(inputs.begin()->second.qkv), grad = nothing(inputs.begin()->second.grad);
  const auto place = [](const at::Tensor& in, const SampleSpan& span) {
    return in[span.row].slice(0, span.begin, span.end);
  };
  const std::vector<SampleSpan> spans = spans_of(context, rows, length);
  for (const SampleSpan& span : spans) {
    place(qkv, span).copy_(inputs.at(span.sample_id).qkv);
    place(grad, span).copy_(inputs.at(span.sample_id).grad);
  }
  const AttentionResult all = ours(qkv, grad, heads, options, context);
  std::map<std::int64_t, AttentionResult> results;
  for (const SampleSpan& span : spans)
    results[span.sample_id] = {place(all.out, span), place(all.grad, span)};
  return results;
}

TEST_P(AttentionOfSamples, HasTheSameBitsForAnySplitOrderAndPacking) {
  const std::vector<std::int64_t> ids{3, 9, 4, 1LL << 33};
  std::map<std::int64_t, Sample> inputs;
  for (const std::int64_t id : ids) {
    const auto draw = static_cast<std::uint64_t>(id);
    inputs[id] = {packed_projections(1, 40, heads * 16, GetParam(), draw)[0],
                  upstream(1, 40, heads * 16, GetParam())[0]};
  }
  for (const bool causal : {true, false}) {
    const AttentionOptions options{.causal = causal, .dropout = 0.3, .site = 1};
    const auto whole = by_sample(inputs, rows_of(ids), 4, 40, options);
    const auto expect_same = [&](const ForwardContext& context, std::int64_t rows,
                                 std::int64_t length) {
      for (const auto& [id, result] : by_sample(inputs, context, rows, length, options)) {
        EXPECT_TRUE(at::equal(result.out, whole.at(id).out)) << id;
        EXPECT_TRUE(at::equal(result.grad, whole.at(id).grad)) << id;
      }
    };
    for (const std::int64_t id : ids) expect_same(rows_of({id}), 1, 40);
    expect_same(rows_of({1LL << 33, 3, 4}), 3, 40);
    ForwardContext packed = rows_of({4, 3, 9, 1LL << 33});
    packed.spans = {{4, 0, 0, 40}, {3, 0, 41, 81}, {1LL << 33, 1, 60, 100}, {9, 1, 3, 43}};
    expect_same(packed, 2, 100);

    // Rows as keys is the usual mistake, and the comparison detects it.
    const auto wrong = by_sample({{0, inputs.at(9)}}, rows_of({0}), 1, 40, options);
    EXPECT_FALSE(at::equal(wrong.at(0).out, whole.at(9).out));
  }
}

TEST_P(AttentionOfSamples, HasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor qkv = packed_projections(2, 96, heads * 16, GetParam());
  const at::Tensor grad = upstream(2, 96, heads * 16, GetParam());
  const int threads = at::get_num_threads();
  const AttentionResult together = ours(qkv, grad, heads, {.dropout = 0.3}, packed_context());
  at::set_num_threads(1);
  const AttentionResult alone = ours(qkv, grad, heads, {.dropout = 0.3}, packed_context());
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone.out, together.out));
  EXPECT_TRUE(at::equal(alone.grad, together.grad));
}

TEST(AttentionDropout, ActsInTrainingOnly) {
  const at::Tensor qkv = packed_projections(1, 20, 16, at::kFloat);
  const at::Tensor plain = attention(qkv, 1, {}, {.training = false});
  EXPECT_TRUE(at::equal(attention(qkv, 1, {.dropout = 0.5}, {.training = false}), plain));
  EXPECT_FALSE(at::equal(attention(qkv, 1, {.dropout = 0.5}, rows_of({1})), plain));
}

TEST(AttentionDropout, RefusesWhatDoesNotFit) {
  using ::testing::HasSubstr;
  const auto message = [](const AttentionOptions& options, const ForwardContext& context) {
    try {
      attention(at::ones({2, 8, 12}), 1, options, context);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto with_spans = [](std::vector<SampleSpan> spans) {
    ForwardContext context = rows_of({1, 2});
    context.spans = std::move(spans);
    return context;
  };
  const AttentionOptions dropping{.dropout = 0.1};
  EXPECT_EQ(message(dropping, rows_of({1, 2})), "no error");
  EXPECT_EQ(message({}, rows_of({})), "no error");
  EXPECT_THAT(message(dropping, rows_of({1})), HasSubstr("2 sample ids, one per row"));
  for (const double probability : {-0.1, 1.0, std::nan("")})
    EXPECT_THAT(message({.dropout = probability}, rows_of({1, 2})), HasSubstr("dropout in [0, 1)"));
  EXPECT_THAT(message({}, with_spans({{1, 2, 0, 4}})), HasSubstr("[0, 4) of row 2"));
  EXPECT_THAT(message({}, with_spans({{1, 0, 0, 9}})), HasSubstr("[0, 9) of row 0"));
  EXPECT_THAT(message({}, with_spans({{1, 0, 5, 4}})), HasSubstr("[5, 4) of row 0"));
  EXPECT_THAT(message({}, with_spans({{1, 0, -1, 4}})), HasSubstr("[-1, 4) of row 0"));
  EXPECT_THAT(message({}, with_spans({{1, 0, 4, 8}, {3, 1, 0, 8}, {2, 0, 0, 5}})),
              HasSubstr("[0, 5) of row 0 and [4, 8) of row 0"));
}

}  // namespace attention_samples_test
}  // namespace accrue::kernels
