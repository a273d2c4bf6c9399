// Results of LlamaOptions alone: counts, default widths, refusals, rotary tables.
#include "accrue/kernels/rotary.h"
#include "accrue/models/llama.h"
#include "models/layers/rotary_tables.h"
#include "support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::HasSubstr;

/// From the papers and model cards, or the sum of the tensors that they publish.
TEST(Llama, CountsOfPublishedModelsAreThePublishedOnes) {
  const LlamaOptions smollm{
      .layers = 30, .heads = 9, .kv_heads = 3, .width = 576, .ffn_width = 1536, .vocab = 49'152};
  EXPECT_EQ(parameter_count(smollm), 134'515'008);
  const LlamaOptions llama32{.layers = 16,
                             .heads = 32,
                             .kv_heads = 8,
                             .head_width = 64,
                             .width = 2048,
                             .ffn_width = 8192,
                             .vocab = 128'256};
  EXPECT_EQ(parameter_count(llama32), 1'235'814'400);
  LlamaOptions mistral{.layers = 32,
                       .heads = 32,
                       .kv_heads = 8,
                       .width = 4096,
                       .ffn_width = 14'336,
                       .vocab = 32'000};
  mistral.variant.tied_head = false;
  EXPECT_EQ(parameter_count(mistral), 7'241'732'096);
  LlamaOptions qwen2{
      .layers = 24, .heads = 14, .kv_heads = 2, .width = 896, .ffn_width = 4864, .vocab = 151'936};
  qwen2.variant.qkv_bias = true;
  EXPECT_EQ(parameter_count(qwen2), 494'032'768);
  LlamaOptions qwen3{.layers = 28,
                     .heads = 16,
                     .kv_heads = 8,
                     .head_width = 128,
                     .width = 1024,
                     .ffn_width = 3072,
                     .vocab = 151'936};
  qwen3.variant.qk_norm = true;
  EXPECT_EQ(parameter_count(qwen3), 596'049'920);
  LlamaOptions gemma2{.layers = 26,
                      .heads = 8,
                      .kv_heads = 4,
                      .head_width = 256,
                      .width = 2304,
                      .ffn_width = 9216,
                      .vocab = 256'000};
  gemma2.variant.post_norms = true;
  EXPECT_EQ(parameter_count(gemma2), 2'614'341'888);
  LlamaOptions gemma3{.layers = 18,
                      .heads = 4,
                      .kv_heads = 1,
                      .head_width = 256,
                      .width = 640,
                      .ffn_width = 2048,
                      .vocab = 262'144};
  gemma3.variant.post_norms = gemma3.variant.qk_norm = true;
  EXPECT_EQ(parameter_count(gemma3), 268'098'176);
}

TEST(Llama, CountsItsOwnParameters) {
  for (const LlamaOptions& options : {small_llama(), small_llama_of_all()})
    EXPECT_EQ(parameter_count(options), parameter_count(Llama(options)));
}

TEST(Llama, CountsTheMultiplicationsThatTheMasksLeave) {
  for (const LlamaOptions& options : {small_llama(), small_llama_of_all()}) {
    const Llama model(options);
    std::int64_t pairs = 0;  // of a query and a key, in one head
    for (std::int64_t layer = 0; layer < options.layers; ++layer)
      for (std::int64_t query = 0; query < options.context; ++query)
        pairs += options.variant.is_local(layer) ? std::min(query + 1, options.variant.window)
                                                 : query + 1;
    const std::int64_t multiplied =
        parameter_count(options) - (options.variant.tied_head ? 0 : options.vocab * options.width);
    const std::int64_t attention = 2 * options.heads * options.head_width * pairs;
    EXPECT_EQ(model.flops_per_sample(), 6 * (options.context * multiplied + attention));
  }
}

TEST(Llama, RefusesOptionsOutOfRangeByName) {
  const auto message = [](const std::function<void(LlamaOptions&)>& change) {
    LlamaOptions options = small_llama();
    change(options);
    return message_of([&] { const Llama model(options); });
  };
  EXPECT_THAT(message([](auto& o) { o.layers = 0; }), HasSubstr("model.layers"));
  EXPECT_THAT(message([](auto& o) { o.heads = -1; }), HasSubstr("model.heads"));
  EXPECT_THAT(message([](auto& o) { o.kv_heads = 3; }), HasSubstr("model.kv_heads"));
  EXPECT_THAT(message([](auto& o) { o.kv_heads = 5; }), HasSubstr("model.kv_heads"));
  EXPECT_THAT(message([](auto& o) { o.head_width = 5; }), HasSubstr("head_width"));
  EXPECT_THAT(message([](auto& o) { o.width = 0; }), HasSubstr("model.width"));
  EXPECT_THAT(message([](auto& o) { o.head_width = 0, o.width = 18; }),
              HasSubstr("model.width=20"));
  EXPECT_THAT(message([](auto& o) { o.ffn_width = -1; }), HasSubstr("model.ffn_width"));
  EXPECT_THAT(message([](auto& o) { o.context = 0; }), HasSubstr("model.context"));
  EXPECT_THAT(message([](auto& o) { o.vocab = 0; }), HasSubstr("model.vocab"));
  EXPECT_THAT(message([](auto& o) { o.dropout = 1; }), HasSubstr("model.dropout"));
  EXPECT_THAT(message([](auto& o) { o.vocab = INT64_MAX; }), HasSubstr("10^12"));
  EXPECT_THAT(message([](auto& o) { o.variant.window = -1; }), HasSubstr("window"));
  EXPECT_THAT(message([](auto& o) { o.variant.local_layers = {true}; }), HasSubstr("local_layers"));
  EXPECT_THAT(message([](auto& o) { o.variant.norm_eps = NAN; }), HasSubstr("norm_eps"));
  EXPECT_THAT(message([](auto& o) { o.variant.logit_soft_cap = 41; }), HasSubstr("logit_soft_cap"));
  EXPECT_THAT(message([](auto& o) { o.variant.rotary.base = 1; }), HasSubstr("rotary base"));
  EXPECT_THAT(message([](auto& o) { o.variant.rotary.factor = 0; }), HasSubstr("rotary factor"));
}

TEST(Llama, TheUsualWidths) {
  const LlamaOptions usual = with_usual_widths({.heads = 6, .width = 384});
  EXPECT_EQ(usual.kv_heads, 6);
  EXPECT_EQ(usual.head_width, 64);
  EXPECT_EQ(usual.ffn_width, 1024);
  EXPECT_EQ(with_usual_widths({.heads = 6, .width = 390}).ffn_width, 1088);
}

TEST(RotaryTables, AreCosinesAndSinesOfPositionTimesFrequency) {
  const RotaryTables tables = rotary_tables({.base = 100}, 5, 8, at::kDouble);
  for (std::int64_t position = 0; position < 5; ++position)
    for (std::int64_t pair = 0; pair < 4; ++pair) {
      const double angle =
          static_cast<double>(position) * std::pow(100.0, -static_cast<double>(pair) / 4);
      EXPECT_NEAR(tables.cosines[position][pair].item<double>(), std::cos(angle), 1e-6);
      EXPECT_NEAR(tables.sines[position][pair].item<double>(), std::sin(angle), 1e-6);
    }
}

/// Su et al., section 3.4.1: a product of a query and a key depends on their distance only.
TEST(RotaryTables, ProductsDependOnTheDistanceOnly) {
  const RotaryTables tables = rotary_tables({}, 12, 6, at::kDouble);
  const at::Tensor q = at::randn({6}, at::kDouble), k = at::randn({6}, at::kDouble);
  const auto at_position = [&](const at::Tensor& x, std::int64_t position) {
    const at::Tensor row = x.expand({1, 12, 6}).contiguous();
    return kernels::rotate(row, 1, tables.cosines, tables.sines)[0][position];
  };
  const auto product = [&](std::int64_t query, std::int64_t key) {
    return at_position(q, query).dot(at_position(k, key)).item<double>();
  };
  EXPECT_NEAR(product(7, 4), product(3, 0), 1e-5);
  EXPECT_NEAR(product(11, 8), product(3, 0), 1e-5);
  EXPECT_GT(std::abs(product(7, 3) - product(3, 0)), 1e-3);
}

}  // namespace
}  // namespace accrue::models
