#include "accrue/models/llama.h"

#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "accrue/kernels/rotary.h"
#include "kernels/plain/plain_operations.h"
#include "models/generate.h"
#include "models/layers/rotary_tables.h"
#include "support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using namespace models::testing;
using ::testing::HasSubstr;

struct LlamaPass {
  Loss loss;
  std::vector<at::Tensor> gradients;
};

LlamaPass pass_of(Llama& model, const batch::MicroBatch& micro, const ForwardContext& context) {
  LlamaPass pass{.loss = forward(model, micro, context), .gradients = {}};
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  pass.gradients = torch::autograd::grad({pass.loss.sum}, leaves);
  return pass;
}

at::ScalarType dtype_of_products(Compute compute) {
  return compute == Compute::fp64   ? at::kDouble
         : compute == Compute::bf16 ? at::kBFloat16
                                    : at::kFloat;
}

/// The kernels' pass is that of ATen's plain operators.
void expect_plain(Llama& model, const batch::MicroBatch& micro, ForwardContext context,
                  Compute compute) {
  const LlamaPass native = pass_of(model, micro, context);
  context.operations = &kernels::plain_operations();
  const LlamaPass plain = pass_of(model, micro, context);
  const double bound = tolerance(dtype_of_products(compute)).bound(small_terms);
  EXPECT_EQ(native.loss.weight, plain.loss.weight);
  EXPECT_LE(relative_error(native.loss.sum, plain.loss.sum), bound);
  for (std::size_t i = 0; i < native.gradients.size(); ++i)
    EXPECT_TRUE(accrue::testing::within(native.gradients[i], plain.gradients[i], bound))
        << model.parameters()[i].name;
}

TEST(Llama, LossAndGradientsAreThoseOfPlainOperators) {
  for (const Compute compute : {Compute::fp64, Compute::fp32, Compute::bf16})
    for (const bool of_all : {false, true})
      for (const double dropout : {0.0, 0.3}) {
        SCOPED_TRACE(std::string(to_string(compute)) + (of_all ? " of all" : " plain") +
                     (dropout > 0 ? ", dropping" : ""));
        LlamaOptions options = of_all ? small_llama_of_all(compute) : small_llama(compute);
        options.dropout = dropout;
        Llama model(options);
        perturb(model);
        const batch::MicroBatch micro = random_batch(options, 3, 11);
        expect_plain(model, micro, context_of(micro), compute);
      }
}

TEST(Llama, PlainOperatorsWithAnotherWindowDiffer) {
  Llama model(small_llama_of_all());
  LlamaOptions options = model.options();
  options.variant.window = 4;
  Llama other(options);
  perturb(model);
  perturb(other);
  const batch::MicroBatch micro = random_batch(options, 3, 11);
  ForwardContext context = context_of(micro);
  const LlamaPass native = pass_of(model, micro, context);
  context.operations = &kernels::plain_operations();
  EXPECT_GT(relative_error(native.loss.sum, forward(other, micro, context).sum), 1e-9);
}

/// Rows may be longer than the context; samples begin anywhere.
batch::MicroBatch shared_rows(const LlamaOptions& options) {
  batch::MicroBatch micro = random_batch(options, 2, 20);
  micro.sample_ids = {4, 9, 2};
  micro.spans = {{4, 0, 1, 8}, {9, 0, 8, 20}, {2, 1, 3, 12}};
  const at::Tensor covered = at::zeros({2, 20}, at::kBool);
  for (const SampleSpan& span : micro.spans)
    covered[span.row].slice(0, span.begin, span.end).fill_(true);
  micro.targets.masked_fill_(covered.logical_not(), -100);
  return micro;
}

batch::MicroBatch sample_of(const batch::MicroBatch& micro, const SampleSpan& span) {
  batch::MicroBatch sample;
  const auto part = [&](const at::Tensor& of) {
    return of[span.row].slice(0, span.begin, span.end).unsqueeze(0).contiguous();
  };
  sample.inputs = part(micro.inputs);
  sample.targets = part(micro.targets);
  sample.sample_ids = {span.sample_id};
  return sample;
}

TEST(Llama, SamplesThatShareARowGiveWhatTheyGiveApart) {
  for (const double dropout : {0.0, 0.3}) {
    LlamaOptions options = small_llama_of_all();
    options.dropout = dropout;
    Llama model(options);
    perturb(model);
    const batch::MicroBatch micro = shared_rows(options);
    const LlamaPass together = pass_of(model, micro, batch::training_context(micro, 7, 3));
    double sum = 0, weight = 0;
    std::vector<at::Tensor> gradients(together.gradients.size());
    for (const SampleSpan& span : micro.spans) {
      const batch::MicroBatch sample = sample_of(micro, span);
      const LlamaPass apart = pass_of(model, sample, batch::training_context(sample, 7, 3));
      sum += apart.loss.sum.item<double>();
      weight += apart.loss.weight;
      for (std::size_t i = 0; i < gradients.size(); ++i)
        gradients[i] =
            gradients[i].defined() ? gradients[i] + apart.gradients[i] : apart.gradients[i];
    }
    EXPECT_EQ(together.loss.weight, weight);
    EXPECT_NEAR(together.loss.sum.item<double>(), sum, 1e-13 * sum);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(accrue::testing::within(together.gradients[i], gradients[i], 1e-12));
  }
}

TEST(Llama, RefusesInputsThatDoNotFit) {
  Llama model(small_llama());
  batch::MicroBatch micro = random_batch(model.options(), 2, 13);
  EXPECT_THAT(message_of([&] { forward(model, micro, context_of(micro)); }),
              HasSubstr("model.context"));
  micro = shared_rows(model.options());
  micro.spans = {{1, 0, 0, 13}};
  EXPECT_THAT(message_of([&] { forward(model, micro, batch::training_context(micro, 7, 3)); }),
              HasSubstr("model.context"));
}

TEST(Llama, DropoutDoesNotDependOnTheSplit) {
  LlamaOptions options = small_llama();
  options.dropout = 0.3;
  Llama model(options);
  perturb(model);
  batch::MicroBatch micro = random_batch(options, 4, 12);
  micro.sample_ids = {9, 2, 40, 3};
  const double whole = forward(model, micro, context_of(micro)).sum.item<double>();
  double parts = 0;
  for (std::int64_t row = 0; row < 4; ++row) {
    const batch::MicroBatch part =
        sample_of(micro, {micro.sample_ids[static_cast<std::size_t>(row)], row, 0, 12});
    parts += forward(model, part, context_of(part)).sum.item<double>();
  }
  EXPECT_NEAR(parts, whole, 1e-12 * whole);
}

TEST(Llama, SelectiveRecomputationAndUnreadResultsChangeNoGradient) {
  for (const Compute compute : {Compute::fp64, Compute::fp32, Compute::bf16})
    for (const bool of_all : {false, true}) {
      Llama model(of_all ? small_llama_of_all(compute) : small_llama(compute));
      perturb(model);
      const batch::MicroBatch micro = random_batch(model.options(), 3, 12);
      ForwardContext context = context_of(micro);
      const LlamaPass kept = pass_of(model, micro, context);
      context.recompute = Recompute::selective;
      const LlamaPass remade = pass_of(model, micro, context);
      for (std::size_t i = 0; i < kept.gradients.size(); ++i)
        EXPECT_TRUE(at::equal(kept.gradients[i], remade.gradients[i]))
            << model.parameters()[i].name;

      const Segment block = model.segments().at(1);
      const at::Tensor x =
          at::randn({3, 12, 16},
                    at::TensorOptions().dtype(compute == Compute::fp64 ? at::kDouble : at::kFloat));
      const auto gradient = [&](bool unread) {
        const at::Tensor input = x.clone().requires_grad_(true);
        ForwardContext rerun = context_of(micro);
        rerun.result_unread = unread;
        const at::Tensor y = block.forward({input}, micro, rerun).at(0);
        return torch::autograd::grad({y}, {input}, {at::ones_like(y)})[0];
      };
      EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
    }
}

TEST(Llama, PackedWeightsGiveTheSameWithinRounding) {
  const LlamaOptions options = small_llama(Compute::fp32);
  Llama model(options);
  perturb(model);
  const std::int64_t weights =
      options.layers * (16 * 6 * 2 * (4 + 2) + 3 * 16 * 20);  // of attention and of the gate's part
  EXPECT_EQ(model.packed_weight_bytes(), 2 * 4 * weights);
  const batch::MicroBatch micro = random_batch(options, 3, 12);
  const LlamaPass plain = pass_of(model, micro, context_of(micro));
  model.pack_weights(true);
  const LlamaPass packed = pass_of(model, micro, context_of(micro));
  for (std::size_t i = 0; i < plain.gradients.size(); ++i)
    EXPECT_TRUE(
        accrue::testing::close(packed.gradients[i], plain.gradients[i], at::kFloat, small_terms));
}

TEST(Llama, SegmentsAndParametersAreThoseThatTheContractNames) {
  Llama model(small_llama());
  std::vector<std::string> segments;
  for (const Segment& segment : model.segments()) segments.push_back(segment.name);
  EXPECT_EQ(segments, (std::vector<std::string>{"embed", "block.0", "block.1", "head"}));
  EXPECT_EQ(model.shared_parameters(), std::vector<std::string>{"model.embed_tokens.weight"});
  std::set<std::string> names;
  for (const auto& [name, tensor] : model.parameters()) names.insert(name);
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.1.input_layernorm.weight",
        "model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight",
        "model.layers.1.self_attn.v_proj.weight", "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.post_attention_layernorm.weight", "model.layers.1.mlp.gate_proj.weight",
        "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight",
        "model.norm.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(names.size(), 2 + 2 * 9U);

  const Llama untied(small_llama_of_all());
  EXPECT_TRUE(untied.shared_parameters().empty());
  EXPECT_EQ(untied.parameters().back().name, "lm_head.weight");
}

TEST(Llama, InitialisationFollowsSeedAndNameAndFp64StartsFromFp32) {
  LlamaOptions options = small_llama_of_all(Compute::fp32);
  const Llama model(options);
  const Llama wide(small_llama_of_all(Compute::fp64));
  options.seed = 2;
  const Llama other(options);
  const NamedParameters parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    EXPECT_TRUE(at::equal(wide.parameters()[i].tensor.to(at::kFloat), tensor)) << name;
    EXPECT_EQ(at::equal(other.parameters()[i].tensor, tensor), tensor.dim() < 2) << name;
    if (tensor.dim() < 2) {
      EXPECT_EQ(tensor.abs().max().item<double>(), 0) << name;  // norms have an offset here
    }
  }
  for (const auto& [name, tensor] : Llama(small_llama()).parameters())
    if (tensor.dim() < 2) {
      EXPECT_TRUE(at::equal(tensor, at::ones_like(tensor))) << name;
    }
}

TEST(Llama, TheInitialLossIsThatOfAUniformGuess) {
  LlamaOptions options = small_llama(Compute::fp32);
  options.vocab = 256;
  Llama model(options);
  const batch::MicroBatch micro = random_batch(options, 8, 12);
  const Loss loss = evaluate(model, micro, context_of(micro));
  EXPECT_NEAR(loss.sum.item<double>() / loss.weight, std::log(256.0), 0.05);
}

TEST(Llama, NextTokenLogitsAreTheLastRowOfAllLogits) {
  for (const Compute compute : {Compute::fp64, Compute::fp32, Compute::bf16}) {
    LlamaOptions options = small_llama_of_all(compute);
    options.context = 80;
    options.dropout = 0.5;  // must not act here
    Llama model(options);
    perturb(model);
    for (const std::int64_t length : {1, 9, 64, 65, 80}) {
      const batch::MicroBatch micro = random_batch(options, 2, length);
      const at::Tensor logits = model.next_token_logits(micro.inputs);
      EXPECT_EQ(logits.scalar_type(), compute == Compute::fp64 ? at::kDouble : at::kFloat);
      ForwardContext context = context_of(micro);
      context.training = false;
      const at::NoGradGuard no_grad;
      const at::Tensor hidden =
          run_segments(model, micro, context).at(0).select(1, length - 1).to(at::kDouble);
      const at::Tensor head = model.parameters().back().tensor.to(at::kDouble);
      const at::Tensor expected = 3 * at::tanh(at::matmul(hidden, head.t()) / 3);
      EXPECT_TRUE(
          accrue::testing::close(logits, expected, dtype_of_products(compute), small_terms));
    }
  }
}

TEST(Llama, GeneratesAsGpt2Does) {
  Llama model(small_llama(Compute::fp32));
  const auto tokens = generate(model, {3, 1, 4}, {.max_tokens = 20});
  EXPECT_EQ(tokens.size(), 23U);
  EXPECT_THAT(message_of([&] { generate(model, {31}, {}); }), HasSubstr("[0, 31)"));
}

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
