#include "accrue/models/adapter_io.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_io.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/config/adapter_config.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::context_of;
using ::testing::ElementsAre;
using testing::forward;
using ::testing::HasSubstr;
using testing::message_of;
using testing::perturb;
using testing::random_batch;
using testing::small;
using testing::small_llama;
using testing::TemporaryFolder;

constexpr AdapterKind dora = AdapterKind::dora;

LlamaOptions llama_with(const AdapterOptions& adapters) {
  LlamaOptions options = small_llama(Compute::fp32);
  options.adapters = adapters;
  return options;
}

at::Tensor loss_of(Trainable& model) {
  const at::NoGradGuard no_grad;
  const batch::MicroBatch micro = random_batch(small(), 3, 11);
  return forward(model, micro, context_of(micro)).sum;
}

/// A folder with an adapter, whose config.json has `changes`.
void write_adapter(const std::filesystem::path& folder, const json& changes = {}) {
  Llama model(llama_with({.rank = 2, .targets = {"q_proj", "down_proj"}}));
  perturb(model);
  save_adapter_folder(folder, model, "the/base");
  json config = json::parse(read_file(folder / "adapter_config.json"));
  config.update(changes.is_null() ? json::object() : changes);
  std::ofstream(folder / "adapter_config.json") << config.dump();
}

std::string adapter_refusal_of(const json& changes) {
  const TemporaryFolder folder;
  write_adapter(folder / "adapter", changes);
  return message_of([&] { read_adapter_options(folder / "adapter"); });
}

TEST(AdapterFolder, GivesBackWhatWasSaved) {
  const TemporaryFolder folder;
  for (const AdapterOptions& adapters :
       {AdapterOptions{.rank = 3, .alpha = 7.5}, AdapterOptions{.rank = 2, .kind = dora},
        AdapterOptions{.rank = 4, .targets = {"layers.1.*.up_proj"}, .rank_stabilised = true}}) {
    Llama model(llama_with(adapters));
    perturb(model);
    const std::filesystem::path saved = folder / ("adapter" + std::to_string(adapters.rank));
    save_adapter_folder(saved, model, "the/base");
    AdapterOptions found = read_adapter_options(saved);
    EXPECT_EQ(found.rank, adapters.rank);
    EXPECT_EQ(found.scale(), adapters.scale());
    EXPECT_EQ(found.kind, adapters.kind);
    EXPECT_EQ(found.targets.size(), adapters.targets.empty() ? 14U : 1U);
    Llama again(llama_with(found));
    again.load_file_tensors(Llama(small_llama(Compute::fp32)).file_tensors(), "the base");
    EXPECT_FALSE(at::equal(loss_of(again), loss_of(model)));
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < again.parameters().size(); ++i)
      if (!is_adapter_name(model.parameters()[i].name))
        at::Tensor(again.parameters()[i].tensor).copy_(model.parameters()[i].tensor);
    load_adapter_folder(saved, again);
    EXPECT_TRUE(at::equal(loss_of(again), loss_of(model)));
  }
}

TEST(AdapterFolder, NamesTheTargetsAsPeftFindsThem) {
  const std::vector<std::string> gpt2{
      "transformer.h.0.attn.c_attn", "transformer.h.0.attn.c_proj", "transformer.h.0.mlp.c_fc",
      "transformer.h.0.mlp.c_proj",  "transformer.h.1.attn.c_attn", "transformer.h.1.attn.c_proj",
      "transformer.h.1.mlp.c_fc",    "transformer.h.1.mlp.c_proj",  "transformer.wte"};
  EXPECT_THAT(target_modules({gpt2[0], gpt2[4]}, gpt2), ElementsAre("c_attn"));
  EXPECT_THAT(target_modules({gpt2[1], gpt2[5]}, gpt2), ElementsAre("attn.c_proj"));
  EXPECT_THAT(target_modules({gpt2[1], gpt2[3], gpt2[5], gpt2[7]}, gpt2), ElementsAre("c_proj"));
  EXPECT_THAT(target_modules({gpt2[4]}, gpt2), ElementsAre("1.attn.c_attn"));
}

TEST(AdapterFolder, WhatIsNotHereIsRefusedByName) {
  const json refusals = {{"peft_type", "IA3"},
                         {"bias", "all"},
                         {"modules_to_save", {"lm_head"}},
                         {"rank_pattern", {{"q_proj", 4}}},
                         {"alpha_pattern", {{"q_proj", 4}}},
                         {"layer_replication", {{0, 2}}},
                         {"lora_bias", true},
                         {"init_lora_weights", "pissa"},
                         {"trainable_token_indices", {1, 2}},
                         {"r", 0},
                         {"r", "many"},
                         {"lora_alpha", -1},
                         {"use_dora", 3}};
  for (const auto& [key, value] : refusals.items())
    EXPECT_THAT(adapter_refusal_of({{key, value}}), HasSubstr(key)) << value;
  const TemporaryFolder folder;
  write_adapter(folder / "adapter", {{"init_lora_weights", "gaussian"},
                                     {"modules_to_save", json::array()},
                                     {"rank_pattern", json::object()},
                                     {"target_modules", "all-linear"}});
  EXPECT_EQ(read_adapter_options(folder / "adapter").rank, 2);
}

TEST(AdapterFolder, OfAnotherBaseIsRefusedAndChangesNothing) {
  const TemporaryFolder folder;
  write_adapter(folder / "adapter");
  LlamaOptions other = llama_with(read_adapter_options(folder / "adapter"));
  other.ffn_width += 2;
  Llama wider(other);
  const at::Tensor before = loss_of(wider);
  EXPECT_THAT(message_of([&] { load_adapter_folder(folder / "adapter", wider); }),
              HasSubstr("down_proj"));
  EXPECT_TRUE(at::equal(loss_of(wider), before));
  Gpt2Options gpt2 = small(Compute::fp32);
  gpt2.adapters = read_adapter_options(folder / "adapter");
  EXPECT_THAT(message_of([&] { Gpt2 model(gpt2); }), HasSubstr("lora.targets"));
}

TEST(AdapterFolder, WithOtherTensorsIsRefused) {
  const TemporaryFolder folder;
  write_adapter(folder / "adapter");
  const std::filesystem::path file = folder / "adapter" / "adapter_model.safetensors";
  const NamedParameters tensors = read_safetensors(file).tensors;
  const auto refused_with = [&](const std::string& name) {
    NamedParameters changed = tensors;
    changed.front().name = name;
    write_safetensors(file, changed);
    return message_of([&] { read_adapter_options(folder / "adapter"); });
  };
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.lora_A.weight", "base_model.model.lm_head.weight",
        "base_model.model.model.layers.*.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.embed_tokens.lora_embedding_A"})
    EXPECT_THAT(refused_with(name), HasSubstr(name));
  std::filesystem::remove(file);
  EXPECT_THAT(message_of([&] { read_adapter_options(folder / "adapter"); }),
              HasSubstr("adapter_model.safetensors"));
}

TEST(AdapterFolder, WithoutAnAdapterIsRefusedWithWhatBelongsThere) {
  const TemporaryFolder folder;
  const auto refusal_of = [&](const char* name) {
    return message_of([&] { read_adapter_options(folder / name); });
  };
  std::filesystem::create_directory(folder / "empty");
  for (const char* name : {"empty", "nowhere"})
    EXPECT_THAT(refusal_of(name), AllOf(HasSubstr("adapter_config.json"),
                                        HasSubstr("adapter_model.safetensors"), HasSubstr(name)));
  EXPECT_THAT(refusal_of("empty"), HasSubstr("one without"));
  EXPECT_THAT(refusal_of("nowhere"), HasSubstr("no such folder"));
}

TEST(AdapterFolder, IsNotMadeOfAModelWithoutAdapters) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of([&] {
                save_adapter_folder(folder / "adapter", Llama(small_llama()), "the/base");
              }),
              HasSubstr("lora.rank"));
}

TEST(AdaptedModelFiles, AreOfTheMergedModel) {
  const TemporaryFolder folder;
  Llama llama(llama_with({.rank = 2, .kind = dora}));
  perturb(llama);
  save_llama_folder(folder / "llama", llama);
  const auto merged = load_llama_folder(folder / "llama", {.compute = Compute::fp32});
  EXPECT_NEAR(loss_of(*merged).item<double>() / loss_of(llama).item<double>(), 1, 1e-5);
  Gpt2Options options = small(Compute::bf16);
  options.adapters = {.rank = 2};
  Gpt2 gpt2(options);
  perturb(gpt2);
  save_gpt2_folder(folder / "gpt2", gpt2);
  const auto whole = load_gpt2_folder(folder / "gpt2", {.compute = Compute::fp32});
  EXPECT_NEAR(loss_of(*whole).item<double>() / loss_of(gpt2).item<double>(), 1, 2e-2);
  EXPECT_TRUE(whole->parameters().front().tensor.requires_grad());
}

TEST(AdaptedModelFiles, OfAFolderHaveAFirstFactorThatIsNotZero) {
  const TemporaryFolder folder;
  save_llama_folder(folder / "base", Llama(small_llama(Compute::fp32)));
  const auto model =
      load_llama_folder(folder / "base", {.compute = Compute::fp32, .adapters = {.rank = 2}});
  for (const NamedParameter& parameter : model->parameters())
    if (parameter.name.ends_with("lora_A.weight")) {
      EXPECT_GT(parameter.tensor.detach().abs().max().item<double>(), 0) << parameter.name;
    }
}

TEST(AdaptedModelFiles, OfTheBaseAloneStartTheAdaptersAnew) {
  Llama base(small_llama(Compute::fp32));
  perturb(base);
  Llama adapted(llama_with({.rank = 2, .kind = dora}));
  perturb(adapted);
  adapted.load_file_tensors(base.file_tensors(), "the base");
  EXPECT_NEAR(loss_of(adapted).item<double>() / loss_of(base).item<double>(), 1, 1e-6);
  Llama again(llama_with({.rank = 2, .kind = dora}));
  perturb(adapted);
  again.load_file_tensors(adapted.file_tensors(), "a checkpoint");
  EXPECT_TRUE(at::equal(loss_of(again), loss_of(adapted)));
}

}  // namespace
}  // namespace accrue::models
