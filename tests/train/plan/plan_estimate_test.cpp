#include "train/plan/plan_estimate.h"

#include <gmock/gmock.h>

#include <set>

#include "accrue/core/error.h"
#include "accrue/kernels/kernel_choice.h"
#include "accrue/models/freeze.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/llama_gguf.h"
#include "accrue/models/llama_io.h"
#include "accrue/models/resnet.h"
#include "accrue/models/vit.h"
#include "train/plan/plan_choice.h"
#include "train/plan/storage.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

Config gpt2_1_3b() {
  Config c;
  c.run.steps = 1000;
  c.model = {.kind = ModelKind::gpt2,
             .layers = 24,
             .heads = 16,
             .width = 2048,
             .context = 2048,
             .vocab = 50'257};
  c.batch.tokens = 524'288;
  c.batch.micro = 4;
  return c;
}

TEST(EstimateRun, IsTheArithmeticOfAModelThatNobodyAllocates) {
  const RunEstimate e = estimate_run(gpt2_1_3b());
  EXPECT_NEAR(static_cast<double>(e.parameters), 1.3e9, 0.03e9);
  EXPECT_EQ(e.batch_samples, 256);
  EXPECT_EQ(e.micro_batches, 64);
  EXPECT_EQ(e.sixteen_bit.total(), 8 * e.parameters);
  EXPECT_EQ(e.held.total(), 16 * e.parameters) << "fp32 masters and main gradients, Adam";
  EXPECT_GT(e.one_pass_bytes, 200'000'000'000);
  EXPECT_EQ(e.total_tokens, 524'288'000);
  ASSERT_EQ(e.fits.size(), 9U) << "three devices, three modes";
  EXPECT_EQ(e.fits.front().largest_micro_batch, 0) << "16 bytes a parameter exceed 24 GB with one";
  EXPECT_GT(e.fits.back().largest_micro_batch, 4);
  EXPECT_FALSE(e.cost.has_value());
}

TEST(EstimateRun, IsOfTheLargestBatchWhereItChanges) {
  Config c = gpt2_1_3b();
  c.batch.schedule = {{.at = {0}, .size = 524'288}, {.at = {100}, .size = 1'048'576}};
  const RunEstimate e = estimate_run(c);
  EXPECT_EQ(e.batch_samples, 512);
  EXPECT_THAT(e.batch_changes, ::testing::HasSubstr("1,048,576 from step 100"));
  EXPECT_FALSE(e.total_tokens.has_value()) << "steps of different batches";
}

TEST(EstimateRun, NamesTheOptionsThatCloseTheGap) {
  const RunEstimate e = estimate_run(gpt2_1_3b());
  const auto saved = [&](const std::string& change) {
    for (const RunEstimate::Saving& saving : e.savings)
      if (saving.change == change) return saving.bytes;
    return std::int64_t{0};
  };
  EXPECT_EQ(saved("optim.state = \"bf16\""), 4 * e.parameters);
  EXPECT_EQ(saved("optim.kind = \"adama\" with optim.clip = 0"), 4 * e.parameters);
  EXPECT_GT(saved("optim.state = \"int8\""), 5 * e.parameters);
  EXPECT_GT(saved("memory.recompute = \"full\""), saved("memory.recompute = \"selective\""));
}

/// A config file's "key = value" as an override.
std::string override_of(const std::string& line) {
  const std::string equals = " = ";
  const std::size_t at = line.find(equals);
  return line.substr(0, at) + "=" + line.substr(at + equals.size());
}

/// The overrides in a saving's text: "a = 1 with b = 2".
std::vector<std::string> overrides_of(const std::string& change) {
  const std::string between = " with ";
  const std::size_t at = change.find(between);
  if (at == std::string::npos) return {override_of(change)};
  return {override_of(change.substr(0, at)), override_of(change.substr(at + between.size()))};
}

TEST(EstimateRun, AdvisesWhatTheConfigMayBeChangedTo) {
  const std::string toml =
      "[run]\nsteps = 1\n[data]\ntrain = [\"a\"]\n[batch]\ntokens = 2048\n[model]\nvocab = 50\n";
  using Overrides = std::vector<std::string>;
  std::set<std::string> advised;
  for (const Overrides& base :
       {Overrides{}, Overrides{"optim.clip=0"}, Overrides{"optim.state=\"int8\""},
        Overrides{"optim.kind=\"sgd\""}, Overrides{"optim.kind=\"sgd\"", "optim.momentum=0"},
        Overrides{"optim.kind=\"adama\"", "optim.clip=0"}, Overrides{"optim.kind=\"rmsprop\""},
        Overrides{"precision.compute=\"fp64\""}, Overrides{"precision.compute=\"bf16\""},
        Overrides{"precision.accumulate=\"fixed\""}}) {
    const RunEstimate now = estimate_run(parse_config(toml, "run.toml", base));
    for (const RunEstimate::Saving& saving : now.savings) {
      Overrides changed = base;
      for (std::string& more : overrides_of(saving.change)) changed.push_back(std::move(more));
      advised.insert(saving.change);
      if (saving.change.starts_with("memory.recompute")) {
        EXPECT_NO_THROW(parse_config(toml, "run.toml", changed)) << saving.change;
        continue;
      }
      const RunEstimate then = estimate_run(parse_config(toml, "run.toml", changed));
      EXPECT_EQ(saving.bytes, now.held.total() - then.held.total()) << saving.change;
    }
  }
  EXPECT_TRUE(advised.contains("optim.kind = \"adama\""));
  EXPECT_TRUE(advised.contains("optim.kind = \"adama\" with optim.clip = 0"));
  EXPECT_TRUE(advised.contains("memory.gradients = \"optimizer\" with optim.clip = 0"));
}

TEST(EstimateRun, PricesTheRunAndComparesOffers) {
  const RunEstimate e = estimate_run(
      gpt2_1_3b(), {.offer = memory::Offer{2, 10'000}, .versus = memory::Offer{1, 8'000}});
  EXPECT_NEAR(e.cost->hours, 524.288e6 / 1e4 / 3600, 1e-9);
  EXPECT_NEAR(e.cost->money, 2 * e.cost->hours, 1e-9);
  EXPECT_NEAR(e.comparison->time_ratio, 1.25, 1e-12);
  EXPECT_NEAR(e.comparison->cost_ratio, 0.625, 1e-12);
}

TEST(EstimateRun, TakesTheBytesOfTextForItsVocabulary) {
  Config stated = gpt2_1_3b();
  stated.model.vocab = 256;
  Config c = stated;
  c.model.vocab.reset();
  for (const char* text : {"a.txt", "texts/*.md", "texts/**/*.TXT"}) {
    c.data.train = {text};
    EXPECT_EQ(estimate_run(c).parameters, estimate_run(stated).parameters) << text;
  }
  for (const char* other : {"a.bin", "a.BIN", "a.jsonl", "texts/**", "texts/*.*", "a.png"}) {
    c.data.train = {"a.txt", other};
    EXPECT_THROW(estimate_run(c), Error) << other;
  }
}

TEST(EstimateRun, NamesWhatIsMissing) {
  const auto refusal = [](const Config& config, const EstimateOptions& options = {}) {
    try {
      estimate_run(config, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return std::string(error.what());
    }
    return std::string("none");
  };
  Config c = gpt2_1_3b();
  c.model.vocab.reset();
  c.data.train = {"tokens.bin"};
  EXPECT_THAT(refusal(c), HasSubstr("model.vocab"));
  c = gpt2_1_3b();
  c.model.kind = ModelKind::vit;
  EXPECT_THAT(refusal(c), HasSubstr("--image"));
  c = gpt2_1_3b();
  c.model.from = "gpt2-folder";
  EXPECT_THAT(refusal(c), HasSubstr("model.from"));
  c = gpt2_1_3b();
  c.model.kind = ModelKind::torchscript;
  EXPECT_THAT(refusal(c), HasSubstr("torchscript"));
  c = gpt2_1_3b();
  EXPECT_THAT(refusal(c, {.versus = memory::Offer{1, 1}}), HasSubstr("--price"));
  c.run.steps.reset();
  c.run.epochs = 2;
  EXPECT_THAT(refusal(c, {.offer = memory::Offer{1, 1}}), HasSubstr("run.tokens"));
}

TEST(EstimateRun, CountsTheParametersOfTheModelsThemselves) {
  Config c = gpt2_1_3b();
  c.model.layers = 3;
  c.model.heads = 2;
  c.model.width = 24;
  c.model.context = 16;
  c.model.vocab = 11;
  const auto counted = [&](const std::vector<std::int64_t>& of_images = {}) {
    return estimate_run(c, {.image = of_images}).parameters;
  };
  EXPECT_EQ(counted(), models::parameter_count(models::Gpt2(
                           {.layers = 3, .heads = 2, .width = 24, .context = 16, .vocab = 11})));
  c.batch.tokens.reset();
  c.batch.samples = 8;
  c.model.kind = ModelKind::vit;
  EXPECT_EQ(counted({3, 8, 8}), models::parameter_count(models::Vit({.layers = 3,
                                                                     .heads = 2,
                                                                     .width = 24,
                                                                     .patches = 16,
                                                                     .classes = 11,
                                                                     .image = {3, 8, 8}})));
  c.model.kind = ModelKind::resnet;
  c.model.layers = 14;
  c.model.width = 4;
  EXPECT_EQ(counted({3, 16, 16}),
            models::parameter_count(
                models::ResNet({.layers = 14, .width = 4, .classes = 11, .image = {3, 16, 16}})));
}

TEST(EstimateRun, HoldsWhatIsFrozenOnce) {
  Config c = gpt2_1_3b();
  c.precision.compute = models::Compute::bf16;
  c.model.kind = ModelKind::llama;
  c.model.ffn_width = 5632;
  const RunEstimate whole = estimate_run(c);
  EXPECT_EQ(whole.trained, whole.parameters);
  c.model.lora.adapters = {.rank = 8};
  const RunEstimate adapters = estimate_run(c);
  EXPECT_EQ(adapters.parameters, whole.parameters + adapters.trained);
  EXPECT_LT(adapters.trained, whole.parameters / 50);
  const memory::Resident of_adapters = memory::state_bytes(adapters.trained, storage_of(c));
  const auto frozen = [&](const RunEstimate& of) {
    return static_cast<double>(of.held.parameters - of_adapters.parameters) /
           static_cast<double>(whole.parameters);
  };
  EXPECT_NEAR(frozen(adapters), 2, 0.01) << "bf16; norms stay in fp32";
  EXPECT_EQ(adapters.held.gradients, of_adapters.gradients);
  EXPECT_EQ(adapters.held.optimizer, of_adapters.optimizer);
  const double tables = 2.0 * static_cast<double>(c.model.vocab.value_or(0) * c.model.width) /
                        static_cast<double>(whole.parameters);
  c.model.base = models::BaseFormat::q4_k;
  EXPECT_NEAR(frozen(estimate_run(c)), tables + (4.5 / 8) * (1 - tables / 2), 0.01);
  c.model.base = models::BaseFormat::as_stored;
  c.model.lora = {};
  c.model.freeze = {"model.layers.*"};
  const RunEstimate part = estimate_run(c);
  EXPECT_EQ(part.held.parameters, whole.held.parameters);
  EXPECT_LT(part.held.gradients, whole.held.gradients / 10);
  EXPECT_EQ(part.sixteen_bit.parameters, whole.sixteen_bit.parameters);
  EXPECT_LT(part.sixteen_bit.gradients, whole.sixteen_bit.gradients / 10);
}

TEST(EstimateRun, KnowsTheChainOfATransformer) {
  const RunEstimate e = estimate_run(gpt2_1_3b());
  EXPECT_EQ(e.chain.blocks, 24);
  EXPECT_EQ(e.chain.cuts, 25) << "embedding, blocks, head";
  EXPECT_EQ(e.chain.cut_bytes, 4 * 2048 * 2048);
  constexpr std::int64_t embeddings = (50'257 + 2048) * std::int64_t{2048};
  EXPECT_EQ(e.chain.first_parameters, embeddings);
  EXPECT_GT(e.chain.pair_parameters, embeddings + 12 * 2048 * 2048) << "with a block";
  EXPECT_LT(e.chain.pair_parameters, embeddings + 13 * 2048 * 2048);
  EXPECT_GT(e.flops_per_sample, 6 * 2048 * (e.parameters - embeddings));
  Config c = gpt2_1_3b();
  c.model.kind = ModelKind::resnet;
  c.model.layers = 14;
  c.model.width = 4;
  c.batch.tokens.reset();
  c.batch.samples = 8;
  EXPECT_EQ(estimate_run(c, {.image = {3, 16, 16}}).chain.blocks, 0);
}

/// The allowed error of an estimate relative to the trials' measurements (memory/estimate.h).
double tolerated() {
  return kernels::chosen_kernels() == kernels::Kernels::generic ? 1.0 / 3 : 0.2;
}

class EstimatedActivations : public testing::TinyRun,
                             public ::testing::WithParamInterface<ModelKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EstimatedActivations,
                         ::testing::Values(ModelKind::gpt2, ModelKind::bert),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(EstimatedActivations, AreNearWhatASampleTakes) {
  Config c = config();
  c.model.kind = GetParam();
  if (c.model.kind == ModelKind::bert) {
    c.loss.kind = models::LossKind::mlm;
    c.model.ffn_width = 120;
  }
  c.model.layers = 8;
  c.model.width = 48;
  c.model.context = 64;
  c.batch.tokens = 32 * 64;
  c.batch.micro.reset();
  for (const auto compute : {models::Compute::fp32, models::Compute::bf16}) {
    c.precision.compute = compute;
    const Workload work = open_workload(c);
    memory::PlanQuestion question = plan_question(work);
    const auto trials = begin_trials(work, question);
    for (const RunEstimate::Mode& mode : estimate_run(work.config).modes) {
      const auto bytes = [&](std::int64_t samples) {
        return static_cast<double>(trials->run({samples, mode.recompute}).peak_bytes);
      };
      const double per_sample = (bytes(32) - bytes(8)) / 24;
      EXPECT_NEAR(static_cast<double>(mode.sample_bytes), per_sample, tolerated() * per_sample)
          << to_string(compute) << ' ' << to_string(mode.recompute);
    }
  }
}

class EstimatedAdapters : public testing::TinyRun {
 protected:
  Config with_adapters() const {
    Config c = config();
    c.model.kind = ModelKind::llama;
    c.model.layers = 8;
    c.model.width = 64;
    c.model.context = 64;
    c.model.vocab = 300;
    c.model.lora.adapters = {.rank = 4};
    c.batch.tokens = 32 * 64;
    c.batch.micro.reset();
    return c;
  }
};

TEST_F(EstimatedAdapters, AreNearWhatARunOfThemTakes) {
  for (const auto compute : {models::Compute::fp32, models::Compute::bf16}) {
    Config c = with_adapters();
    c.precision.compute = compute;
    const Workload work = open_workload(c);
    memory::PlanQuestion question = plan_question(work);
    const auto trials = begin_trials(work, question);
    const RunEstimate estimated = estimate_run(work.config);
    EXPECT_EQ(estimated.parameters, models::parameter_count(*work.model));
    EXPECT_EQ(estimated.trained, models::trained_parameter_count(*work.model));
    const auto held = static_cast<double>(trials->resident().total());
    EXPECT_NEAR(static_cast<double>(estimated.held.total()), held, 0.1 * held);
    for (const RunEstimate::Mode& mode : estimated.modes) {
      const auto bytes = [&](std::int64_t samples) {
        return static_cast<double>(trials->run({samples, mode.recompute}).peak_bytes);
      };
      const double per_sample = (bytes(32) - bytes(8)) / 24;
      // The estimate assumes that all parameters are trained, which takes more.
      EXPECT_GT(static_cast<double>(mode.sample_bytes), (1 - tolerated()) * per_sample)
          << to_string(compute) << ' ' << to_string(mode.recompute);
      EXPECT_LT(static_cast<double>(mode.sample_bytes), 1.4 * per_sample)
          << to_string(compute) << ' ' << to_string(mode.recompute);
    }
  }
}

TEST_F(EstimatedAdapters, TakeTheShapeOfWhatTheModelStartsFrom) {
  Config stated = with_adapters();
  stated.model.heads = 4;
  stated.model.kv_heads = 2;
  const RunEstimate expected = estimate_run(stated);
  const models::Llama model({.layers = stated.model.layers,
                             .heads = 4,
                             .kv_heads = 2,
                             .width = stated.model.width,
                             .context = 128,
                             .vocab = 300});
  models::save_llama_folder(folder_ / "llama", model);
  models::save_llama_gguf(folder_ / "llama.gguf", model, models::GgufDtype::f32, {});
  for (const char* from : {"llama", "llama.gguf"}) {
    Config c = with_adapters();
    c.model.layers = 1;
    c.model.vocab.reset();
    c.model.from = (folder_ / from).string();
    const RunEstimate found = estimate_run(c);
    EXPECT_EQ(found.parameters, expected.parameters) << from;
    EXPECT_EQ(found.trained, expected.trained) << from;
    EXPECT_EQ(found.held.total(), expected.held.total()) << from;
    EXPECT_EQ(found.modes.front().sample_bytes, expected.modes.front().sample_bytes) << from;
  }
}

}  // namespace
}  // namespace accrue::train
