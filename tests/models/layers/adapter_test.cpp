#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <map>
#include <random>
#include <set>

#include "accrue/accum/window.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/freeze.h"
#include "core/name_pattern.h"
#include "kernels/plain/plain_operations.h"
#include "models/support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::close;
using accrue::testing::relative_error;
using accrue::testing::tolerance;
using testing::context_of;
using testing::forward;
using ::testing::HasSubstr;
using testing::message_of;
using testing::perturb;
using testing::random_batch;
using testing::small;
using testing::small_llama;
using testing::small_llama_of_all;
using testing::small_terms;

enum class Family { gpt2, llama, llama_of_all };

struct AdaptedCase {
  Family family;
  AdapterOptions adapters;
};

std::vector<AdaptedCase> cases() {
  std::vector<AdaptedCase> all;
  for (const Family family : {Family::gpt2, Family::llama, Family::llama_of_all})
    for (const AdapterOptions& adapters :
         {AdapterOptions{.rank = 3}, AdapterOptions{.rank = 4, .alpha = 5, .rank_stabilised = true},
          AdapterOptions{.rank = 2, .kind = AdapterKind::dora}})
      all.push_back({family, adapters});
  return all;
}

std::unique_ptr<LanguageModel> made(Family family, const AdapterOptions& adapters,
                                    Compute compute = Compute::fp64, double dropout = 0) {
  if (family == Family::gpt2) {
    Gpt2Options options = small(compute);
    options.adapters = adapters;
    options.dropout = dropout;
    return std::make_unique<Gpt2>(options);
  }
  LlamaOptions options =
      family == Family::llama ? small_llama(compute) : small_llama_of_all(compute);
  options.adapters = adapters;
  options.dropout = dropout;
  return std::make_unique<Llama>(options);
}

batch::MicroBatch a_batch(std::int64_t rows = 3) { return random_batch(small(), rows, 11); }

NamedParameters trained_of(const Trainable& model) {
  NamedParameters trained;
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.tensor.requires_grad()) trained.push_back(parameter);
  return trained;
}

using Gradients = std::map<std::string, at::Tensor>;

Gradients gradients_of(Trainable& model, const batch::MicroBatch& micro,
                       const ForwardContext& context) {
  const NamedParameters trained = trained_of(model);
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& parameter : trained) leaves.push_back(parameter.tensor);
  const auto values = torch::autograd::grad({forward(model, micro, context).sum}, leaves);
  Gradients gradients;
  for (std::size_t i = 0; i < values.size(); ++i) gradients[trained[i].name] = values[i];
  return gradients;
}

at::Tensor tensor_of(const Trainable& model, const std::string& name) {
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.name == name) return parameter.tensor.detach();
  ADD_FAILURE() << name << " is not there";
  return {};
}

/// The model without adapters that computes the same function as `model`.
std::unique_ptr<LanguageModel> merged(Family family, const LanguageModel& model) {
  std::unique_ptr<LanguageModel> whole = made(family, {});
  std::map<std::string, at::Tensor> weights;
  for (const StoredTensor& tensor : merged_parameters(model)) weights[tensor.name] = tensor.read();
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : whole->parameters())
    at::Tensor(parameter.tensor).copy_(weights.at(parameter.name));
  return whole;
}

class Adapters : public ::testing::TestWithParam<AdaptedCase> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Adapters, ::testing::ValuesIn(cases()));

TEST_P(Adapters, AtFirstChangeNothing) {
  const auto& [family, adapters] = GetParam();
  const auto adapted = made(family, adapters);
  const auto plain = made(family, {});
  const batch::MicroBatch micro = a_batch();
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(close(forward(*adapted, micro, context_of(micro)).sum,
                    forward(*plain, micro, context_of(micro)).sum, at::kDouble, small_terms));
}

TEST_P(Adapters, GiveWhatTheMergedWeightsGive) {
  const auto& [family, adapters] = GetParam();
  const auto adapted = made(family, adapters);
  perturb(*adapted);
  const auto whole = merged(family, *adapted);
  const batch::MicroBatch micro = a_batch();
  const at::NoGradGuard no_grad;
  const at::Tensor expected = forward(*whole, micro, context_of(micro)).sum;
  EXPECT_TRUE(
      close(forward(*adapted, micro, context_of(micro)).sum, expected, at::kDouble, small_terms));
  EXPECT_TRUE(close(adapted->next_token_logits(micro.inputs),
                    whole->next_token_logits(micro.inputs), at::kDouble, small_terms));
  at::Tensor(adapted->parameters().back().tensor).mul_(1.001);
  EXPECT_FALSE(
      close(forward(*adapted, micro, context_of(micro)).sum, expected, at::kDouble, small_terms));
}

/// The chain rule over the merged weight W' of a model without adapters: with V = W + s B A and W'
/// = (m / |V|) V, |V| held constant, dV = (m / |V|) dW', dA = s Bᵀ dV, dB = s dV Aᵀ.
TEST_P(Adapters, HaveTheGradientsThatFollowFromThoseOfTheMergedWeights) {
  const auto& [family, adapters] = GetParam();
  const auto adapted = made(family, adapters);
  perturb(*adapted);
  const auto whole = merged(family, *adapted);
  const batch::MicroBatch micro = a_batch();
  const Gradients ours = gradients_of(*adapted, micro, context_of(micro));
  const Gradients of_whole = gradients_of(*whole, micro, context_of(micro));
  const double scale = adapted->adapters().scale();
  std::size_t checked = 0;
  for (const auto& [name, gradient] : ours) {
    const std::string layer = name.substr(0, name.rfind(".lora_"));
    const at::Tensor a = tensor_of(*adapted, layer + ".lora_A.weight"),
                     b = tensor_of(*adapted, layer + ".lora_B.weight");
    const at::Tensor sum = tensor_of(*adapted, layer + ".weight") + scale * b.matmul(a);
    at::Tensor upstream = of_whole.at(layer + ".weight"), of_magnitude;
    if (adapters.kind == AdapterKind::dora) {
      const at::Tensor norm = sum.square().sum(1).sqrt();
      of_magnitude = (upstream * sum).sum(1) / norm;
      upstream =
          upstream * (tensor_of(*adapted, layer + ".lora_magnitude_vector") / norm).unsqueeze(1);
    }
    const at::Tensor expected = name.ends_with("lora_A.weight")   ? scale * b.t().matmul(upstream)
                                : name.ends_with("lora_B.weight") ? scale * upstream.matmul(a.t())
                                                                  : of_magnitude;
    EXPECT_TRUE(close(gradient, expected, at::kDouble, small_terms)) << name;
    EXPECT_FALSE(close(gradient * 1.001, expected, at::kDouble, small_terms)) << name;
    ++checked;
  }
  EXPECT_EQ(checked, trained_of(*adapted).size());
}

TEST_P(Adapters, WithDropoutHaveTheGradientsOfPlainOperations) {
  auto [family, adapters] = GetParam();
  adapters.dropout = 0.3;
  const auto model = made(family, adapters, Compute::fp64, /*dropout=*/0.2);
  perturb(*model);
  const batch::MicroBatch micro = a_batch();
  ForwardContext context = context_of(micro);
  const Gradients ours = gradients_of(*model, micro, context);
  context.operations = &kernels::plain_operations();
  const Gradients plain = gradients_of(*model, micro, context);
  context.window += 1;
  const Gradients other_masks = gradients_of(*model, micro, context);
  for (const auto& [name, gradient] : ours) {
    EXPECT_TRUE(close(gradient, plain.at(name), at::kDouble, small_terms)) << name;
    EXPECT_FALSE(close(gradient, other_masks.at(name), at::kDouble, small_terms)) << name;
  }
}

TEST_P(Adapters, RecomputeTheSameGradientsToTheBit) {
  auto [family, adapters] = GetParam();
  adapters.dropout = 0.3;
  const auto model = made(family, adapters, Compute::fp32, /*dropout=*/0.2);
  perturb(*model);
  const batch::MicroBatch micro = a_batch();
  ForwardContext context = context_of(micro);
  const Gradients kept = gradients_of(*model, micro, context);
  context.recompute = Recompute::selective;
  for (const auto& [name, gradient] : gradients_of(*model, micro, context))
    EXPECT_TRUE(at::equal(gradient, kept.at(name))) << name;
}

TEST_P(Adapters, DropTheSameHoweverTheBatchIsSplit) {
  auto [family, adapters] = GetParam();
  adapters.dropout = 0.4;
  const auto model = made(family, adapters);
  perturb(*model);
  const batch::MicroBatch micro = a_batch(4);
  const Gradients whole = gradients_of(*model, micro, context_of(micro));
  Gradients sums;
  for (const auto& [begin, end] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {1, 4}}) {
    batch::MicroBatch part = micro;
    part.inputs = micro.inputs.slice(0, begin, end);
    part.targets = micro.targets.slice(0, begin, end);
    part.sample_ids = {micro.sample_ids.begin() + begin, micro.sample_ids.begin() + end};
    for (const auto& [name, gradient] : gradients_of(*model, part, context_of(part)))
      sums[name] = sums[name].defined() ? sums[name] + gradient : gradient;
  }
  for (const auto& [name, gradient] : whole)
    EXPECT_TRUE(close(sums.at(name), gradient, at::kDouble, small_terms)) << name;
}

TEST_P(Adapters, LandInSlotsThatHoldThemAlone) {
  const auto& [family, adapters] = GetParam();
  const auto model = made(family, adapters, Compute::fp32);
  perturb(*model);
  const batch::MicroBatch micro = a_batch();
  const Gradients expected = gradients_of(*model, micro, context_of(micro));
  auto buffer = std::make_shared<accum::GradientBuffer>(model->parameters());
  std::int64_t elements = 0;
  for (const NamedParameter& parameter : trained_of(*model)) elements += parameter.tensor.numel();
  std::int64_t in_slots = 0;
  for (const auto& entry : buffer->entries()) {
    EXPECT_TRUE(is_adapter_name(entry.name)) << entry.name;
    in_slots += entry.parameter.numel();
  }
  EXPECT_EQ(in_slots, elements);
  EXPECT_LT(elements, parameter_count(*model) / 2);
  accum::Window window(buffer);
  const auto run = [&](const MicroRef&) {
    Loss loss = forward(*model, micro, context_of(micro));
    loss.sum.backward();
    return loss;
  };
  window.set_replay(run);
  window.open(0);
  for (std::int64_t i = 0; i < 2; ++i) {
    window.begin({.index = i});
    const Loss loss = run({});
    window.commit(loss.sum.item<double>(), loss.weight);
  }
  for (const auto& entry : buffer->entries())
    EXPECT_TRUE(close(source_of(entry).scaled_copy(0.5, expected.at(entry.name)),
                      expected.at(entry.name), at::kFloat, small_terms))
        << entry.name;
  for (const NamedParameter& parameter : model->parameters())
    if (!is_adapter_name(parameter.name)) {
      EXPECT_FALSE(parameter.tensor.grad().defined());
    }
}

TEST_P(Adapters, HaveABaseInTheDtypeOfTheProducts) {
  const auto& [family, adapters] = GetParam();
  const auto model = made(family, adapters, Compute::bf16);
  perturb(*model);
  for (const NamedParameter& parameter : model->parameters()) {
    const bool held_narrow = !is_adapter_name(parameter.name) && parameter.tensor.dim() == 2;
    EXPECT_EQ(parameter.tensor.scalar_type(), held_narrow ? at::kBFloat16 : at::kFloat)
        << parameter.name;
  }
  // The same values in a model of double precision.
  const auto exact = made(family, adapters);
  const NamedParameters from = model->parameters(), to = exact->parameters();
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < from.size(); ++i) at::Tensor(to[i].tensor).copy_(from[i].tensor);
  }
  const batch::MicroBatch micro = a_batch();
  const Gradients ours = gradients_of(*model, micro, context_of(micro));
  // A factor has so few elements that their roundings do not cancel in its projection, so the
  // projection of all of them together is used.
  std::vector<at::Tensor> narrow, wide;
  for (const auto& [name, expected] : gradients_of(*exact, micro, context_of(micro))) {
    EXPECT_LE(relative_error(ours.at(name), expected), tolerance(at::kBFloat16).bound(small_terms))
        << name;
    narrow.push_back(ours.at(name).flatten().to(at::kDouble) / expected.norm());
    wide.push_back(expected.flatten() / expected.norm());
  }
  EXPECT_TRUE(close(at::cat(narrow), at::cat(wide), at::kBFloat16, small_terms));
  EXPECT_EQ(model->next_token_logits(micro.inputs).scalar_type(), at::kFloat);
  EXPECT_TRUE(close(model->next_token_logits(micro.inputs), exact->next_token_logits(micro.inputs),
                    at::kBFloat16, small_terms));
}

/// The products that ran during `action`.
std::int64_t products_of(const std::function<void()>& action) {
  static std::atomic<std::int64_t> count;
  count = 0;
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& span) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(span.name()).starts_with("accrue::matmul ")) ++count;
        return nullptr;
      }));
  action();
  at::removeCallback(handle);
  return count;
}

TEST(AdaptedModel, MakesNoProductsForGradientsOfItsBase) {
  const batch::MicroBatch micro = a_batch();
  const auto products = [&](const AdapterOptions& adapters, Family family) {
    const auto model = made(family, adapters, Compute::fp32);
    const Loss loss = forward(*model, micro, context_of(micro));
    return products_of([&] { loss.sum.backward(); });
  };
  // The fused loss makes its products in forward. For each of 2 * 4 trained projections, backward
  // makes the weight's gradient and the input's; with an adapter the input's, two for the factors
  // and two for their connection, the second of which adds to the input's, and which the first
  // layer's input, of a frozen embedding, does not need.
  EXPECT_EQ(products({.rank = 2}, Family::gpt2) - products({}, Family::gpt2),
            (2 * 4 * 5 - 2) - 2 * 4 * 2);
  // Nothing is made below the first adapted layer; above it frozen layers pass on their input's.
  EXPECT_EQ(products({.rank = 2, .targets = {"h.1.mlp.c_proj"}}, Family::gpt2), 3);
  EXPECT_EQ(products({.rank = 2, .targets = {"h.1.attn.c_proj"}}, Family::gpt2), 2 + 3);
}

TEST(AdaptedModel, HasAdaptersOnWhatTheTargetsMatchAndNothingElse) {
  std::mt19937 generator(5);
  const std::vector<std::string> words{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                       "gate_proj", "up_proj", "down_proj"};
  const batch::MicroBatch micro = a_batch();
  for (int trial = 0; trial < 12; ++trial) {
    std::set<std::string> wanted;
    AdapterOptions adapters{.rank = 1 + trial % 4,
                            .kind = trial % 3 == 0 ? AdapterKind::dora : AdapterKind::lora};
    for (int layer = 0; layer < 2; ++layer)
      for (const std::string& word : words)
        if (generator() % 3 == 0) {
          const std::string part = word.size() == 6 ? ".self_attn." : ".mlp.";
          wanted.insert("model.layers." + std::to_string(layer) + part + word);
          adapters.targets.push_back("layers." + std::to_string(layer) + ".*." + word);
        }
    if (wanted.empty()) continue;
    const auto model = made(Family::llama, adapters);
    perturb(*model);
    std::set<std::string> found;
    for (const NamedParameter& parameter : trained_of(*model))
      found.insert(parameter.name.substr(0, parameter.name.rfind(".lora_")));
    EXPECT_EQ(found, wanted);
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(close(forward(*model, micro, context_of(micro)).sum,
                      forward(*merged(Family::llama, *model), micro, context_of(micro)).sum,
                      at::kDouble, small_terms));
  }
}

TEST(AdaptedModel, RefusesOptionsThatMeanNothing) {
  EXPECT_THAT(message_of([] { made(Family::llama, {.rank = 2, .targets = {"c_attn"}}); }),
              HasSubstr("model.layers.*.self_attn.q_proj"));
  EXPECT_THAT(message_of([] { made(Family::gpt2, {.rank = 1 << 20}); }), HasSubstr("lora.rank"));
  EXPECT_THAT(message_of([] { made(Family::gpt2, {.rank = 2, .dropout = 1}); }),
              HasSubstr("lora.dropout"));
}

TEST(FrozenParameters, AreThoseThatAPatternMatches) {
  const auto model = made(Family::llama, {});
  freeze_parameters(*model, {"embed_tokens", "layers.0", "*norm*"});
  for (const NamedParameter& parameter : model->parameters()) {
    const bool frozen = parameter.name.find("layers.1") == std::string::npos ||
                        parameter.name.find("norm") != std::string::npos;
    EXPECT_EQ(parameter.tensor.requires_grad(), !frozen) << parameter.name;
  }
  const batch::MicroBatch micro = a_batch();
  const Gradients some = gradients_of(*model, micro, context_of(micro));
  const Gradients all = gradients_of(*made(Family::llama, {}), micro, context_of(micro));
  EXPECT_EQ(some.size(), 7U);
  for (const auto& [name, gradient] : some) EXPECT_TRUE(at::equal(gradient, all.at(name))) << name;
}

TEST(FrozenParameters, AreNotAll) {
  const auto model = made(Family::gpt2, {});
  EXPECT_THAT(message_of([&] { freeze_parameters(*model, {"transformer"}); }),
              HasSubstr("leave something to train"));
  EXPECT_THAT(message_of([&] { freeze_parameters(*model, {"layers.0"}); }),
              HasSubstr("transformer.h.*.attn.c_attn.weight"));
}

}  // namespace
}  // namespace accrue::models
