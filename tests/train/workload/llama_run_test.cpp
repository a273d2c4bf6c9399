// model.kind = "llama": runs from scratch and from folders of every family, resumed and exported.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "accrue/models/llama_io.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/measure/gemm_shapes.h"
#include "train/plan/llama_activations.h"
#include "train/recorder.h"
#include "train/tiny_run.h"
#include "train/workload/model_factory.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::HasSubstr;

class LlamaRun : public testing::TinyRun {
 protected:
  Config llama(const std::string& out) const {
    Config c = config(out);
    c.model.kind = ModelKind::llama;
    c.model.heads = 4;
    c.model.kv_heads = 2;
    c.model.ffn_width = 48;
    return c;
  }

  /// A folder with a model of bytes, with features of Gemma 3 that a config's keys cannot state.
  std::string gemma_folder() const {
    const json config_json = {{"model_type", "gemma3_text"},
                              {"vocab_size", 256},
                              {"hidden_size", 32},
                              {"intermediate_size", 40},
                              {"num_hidden_layers", 2},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 1},
                              {"head_dim", 12},
                              {"max_position_embeddings", 64},
                              {"query_pre_attn_scalar", 9},
                              {"sliding_window", 6},
                              {"sliding_window_pattern", 2},
                              {"eos_token_id", {1, 106}},
                              {"final_logit_softcapping", 20.0}};
    const fs::path folder = folder_ / "gemma";
    if (fs::exists(folder)) return folder.string();
    models::LlamaOptions options;
    options.config_json = config_json.dump();
    fs::create_directories(folder_ / "shape");
    write_file_atomically(folder_ / "shape/config.json", options.config_json);
    models::save_llama_folder(folder,
                              models::Llama(models::read_llama_shape(folder_ / "shape", {})));
    return folder.string();
  }

  Config from_gemma(const std::string& out) const {
    Config c = config(out);
    c.model = {};
    c.model.kind = ModelKind::llama;
    c.model.from = gemma_folder();
    c.model.context = 16;
    return c;
  }

  static std::pair<double, double> first_and_last_loss(const Config& c) {
    std::ifstream lines(RunDirectory(c.run.out).metrics_file());
    std::vector<double> losses;
    for (std::string line; std::getline(lines, line);) {
      const json object = json::parse(line);
      if (object.contains("loss")) losses.push_back(object["loss"]);
    }
    return {losses.at(0), losses.back()};
  }
};

TEST_F(LlamaRun, LearnsAndIsLoadedAgainWithItsShape) {
  const Config c = llama("run");
  Trainer(c).run();
  const auto [first_loss, last_loss] = first_and_last_loss(c);
  EXPECT_LT(last_loss, first_loss);
  const TrainedModel trained = load_trained_model(RunDirectory(c.run.out), std::nullopt);
  const auto& model = dynamic_cast<const models::Llama&>(*trained.model);
  EXPECT_EQ(model.options().kv_heads, 2);
  EXPECT_EQ(model.options().ffn_width, 48);
  EXPECT_EQ(model.options().context, 16);
  EXPECT_EQ(model.kind(), "llama");
}

TEST_F(LlamaRun, AFoldersVariantIsRestoredFromTheRunAlone) {
  const Config c = from_gemma("run");
  Trainer(c).run();
  const auto original = models::load_llama_folder(c.model.from, {});
  fs::remove_all(c.model.from);
  const TrainedModel trained = load_trained_model(RunDirectory(c.run.out), std::nullopt);
  const auto& model = dynamic_cast<const models::Llama&>(*trained.model);
  EXPECT_EQ(model.options().variant, original->options().variant);
  EXPECT_EQ(model.options().head_width, 12);
  EXPECT_EQ(model.context(), 16);
  EXPECT_FALSE(at::equal(model.parameters()[0].tensor, original->parameters()[0].tensor));

  models::save_llama_folder(folder_ / "out", model);
  const json exported = json::parse(read_file(folder_ / "out/config.json"));
  EXPECT_EQ(exported["max_position_embeddings"], 64);
  EXPECT_EQ(exported["eos_token_id"], json({1, 106}));
  EXPECT_EQ(exported["sliding_window_pattern"], 2);
}

TEST_F(LlamaRun, ResumesToTheBit) {
  for (const Config& straight : {llama("straight"), from_gemma("straight_gemma")}) {
    Trainer(straight).run();
    Config broken = straight;
    broken.run.out += "_broken";
    Trainer first(broken);
    first.add_observer(std::make_shared<testing::SignalAfter>(10, SIGINT));
    EXPECT_TRUE(first.run().interrupted);
    EXPECT_EQ(Trainer(broken).run({.resume = true}).step, 6);
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

TEST_F(LlamaRun, RecomputationGivesTheSameBits) {
  for (const bool gemma : {false, true}) {
    const auto run = [&](Recompute recompute) {
      const std::string name(to_string(recompute));
      Config c = gemma ? from_gemma(name + "_gemma") : llama(name);
      c.memory.recompute = recompute;
      Trainer(c).run();
      return parameters_of(c);
    };
    const NamedParameters kept = run(Recompute::none);
    expect_same_bits(run(Recompute::selective), kept);
    expect_same_bits(run(Recompute::full), kept);
  }
}

TEST_F(LlamaRun, StartsFromARunAndTakesAShorterContext) {
  const Config first = from_gemma("first");
  Trainer(first).run();
  Config second = config("second");
  second.model = {};
  second.model.kind = ModelKind::llama;
  second.model.from = first.run.out;
  second.model.context = 8;
  const Workload work = open_workload(second);
  expect_same_bits(work.model->parameters(), parameters_of(first));
  const auto& model = dynamic_cast<const models::Llama&>(*work.model);
  EXPECT_EQ(model.context(), 8);
  EXPECT_EQ(model.options().variant.window, 6);
  EXPECT_THAT(work.remarks, ::testing::Contains(HasSubstr("model.context = 8 of the model's 16")));
  second.model.context = 17;
  EXPECT_THAT(usage_message([&] { open_workload(second); }), HasSubstr("model.context = 17"));
  second.model.context.reset();
  second.model.kind = ModelKind::gpt2;
  EXPECT_THAT(usage_message([&] { open_workload(second); }), HasSubstr("\"llama\""));
}

TEST_F(LlamaRun, AFolderOfAnotherKindIsNamed) {
  Config c = from_gemma("run");
  c.model.kind = ModelKind::gpt2;
  EXPECT_THAT(usage_message([&] { open_workload(c); }),
              ::testing::AllOf(HasSubstr("model_type"), HasSubstr("gemma3_text")));
}

TEST(LlamaShapes, HaveTheOperationsOfTheirParameters) {
  ModelConfig model;
  model.kind = ModelKind::llama;
  model.layers = 3;
  model.heads = 6;
  model.kv_heads = 2;
  model.width = 96;
  model.ffn_width = 160;
  model.vocab = 300;
  double operations = 0;
  for (const GemmShape& shape : gemm_shapes(model, 50)) operations += shape.flops();
  const models::LlamaOptions options = llama_shape(model);
  const std::int64_t norms = (2 * 3 + 1) * 96;
  EXPECT_EQ(operations, 6.0 * 50 * static_cast<double>(models::parameter_count(options) - norms));
}

TEST(LlamaActivations, AreThoseOfAGpt2WhereTheShapesAreAlike) {
  // Two hidden layers of twice the width are stored as one of four times the width.
  const models::LlamaOptions llama{.layers = 12,
                                   .heads = 12,
                                   .width = 768,
                                   .ffn_width = 2 * 768,
                                   .context = 1024,
                                   .vocab = 50'257};
  const memory::TransformerShape gpt2{.layers = 12, .width = 768, .heads = 12, .tokens = 1024};
  for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    const auto ours = static_cast<double>(llama_activations(llama, {}, mode));
    const auto theirs = static_cast<double>(memory::transformer_activations(gpt2, {}, mode));
    EXPECT_NEAR(ours / theirs, 1, 0.05) << to_string(mode);
  }
}

}  // namespace
}  // namespace accrue::train
