#include "accrue/models/llama.h"

#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "kernels/plain/plain_operations.h"
#include "models/generation/generate.h"
#include "models/support.h"
#include "support/kernels.h"
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

/// Expects that the kernels' pass agrees with that of ATen's plain operators.
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
        // The roundings of bf16, which differ there, are a fiftieth of some of its gradients.
        if (accrue::testing::by_aten() && compute == Compute::bf16 && of_all) continue;
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

}  // namespace
}  // namespace accrue::models
