#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "train/config/key.h"

/// Every key of the table with every kind: stated and read, or stated and refused.
namespace accrue::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* base = R"(
[run]
steps = 100
[data]
train = ["a"]
[batch]
samples = 8
)";

/// The choices that decide which keys are read, each as overrides of `base`. Models come from the
/// working directory: a folder that does not exist would be the mistake that is named.
const std::map<std::string, std::vector<std::string>> variants{
    {"gpt2", {}},
    {"gpt2 from a folder", {"model.from=."}},
    {"llama", {"model.kind=llama"}},
    {"llama from a folder", {"model.kind=llama", "model.from=."}},
    {"lora", {"lora.rank=4"}},
    {"lora of llama", {"model.kind=llama", "lora.rank=4"}},
    {"lora from a folder", {"model.from=.", "lora.from=adapter"}},
    {"bert", {"model.kind=bert"}},
    {"bert from a folder", {"model.kind=bert", "model.from=."}},
    {"vit", {"model.kind=vit"}},
    {"cropped", {"model.kind=vit", "data.augment.crop=[0.08, 1]"}},
    {"resnet", {"model.kind=resnet"}},
    {"deep resnet", {"model.kind=resnet", "model.layers=50"}},
    {"torchscript", {"model.kind=torchscript", "model.from=a.pt"}},
    {"torchscript of images", {"model.kind=torchscript", "model.from=a.pt", "data.format=images"}},
    {"validation", {"data.val=b"}},
    {"text", {"data.format=text"}},
    {"tokens", {"data.format=tokens"}},
    {"jsonl", {"data.format=jsonl"}},
    {"dpo", {"loss.kind=dpo"}},
    {"orpo", {"loss.kind=orpo"}},
    {"adam", {"optim.kind=adam"}},
    {"sgd", {"optim.kind=sgd"}},
    {"rmsprop", {"optim.kind=rmsprop"}},
    {"adama", {"optim.kind=adama", "optim.clip=0"}},
    {"linear", {"optim.schedule.kind=linear"}},
    {"constant", {"optim.schedule.kind=constant"}},
    {"scaled", {"optim.scale_lr=sqrt", "optim.base_batch=4"}},
    {"local steps", {"dist.local_steps=4"}},
    {"stages", {"dist.stages=2"}},
    {"compressed", {"dist.compress=int8"}},
    {"ramped", {"batch.ramp={from = 1, over = 9}"}},
    {"adapted", {"adapt.batch=noise-scale"}},
    {"fp16", {"precision.compute=fp16"}},
    {"divided", {"dist.shard=optimizer"}},
    {"offloaded", {"memory.offload=/mnt/disk"}},
    {"no tensorboard", {"observe.tensorboard=false"}}};

/// The variants that refuse a key with a usual value; all other keys are read everywhere.
struct Expectation {
  std::string value;
  std::vector<std::string> refused_with = {};  ///< variants
  std::vector<std::string> only_with = {};     ///< refused with all other variants
};

const std::vector<std::string> of_images{"vit",         "cropped",     "resnet",
                                         "deep resnet", "torchscript", "torchscript of images"};

const std::map<std::string, Expectation> expectations{
    {"run.out", {"out"}},
    {"run.seed", {"1"}},
    {"run.device", {"cpu"}},
    {"run.kernels", {"generic"}},
    {"run.graphs",
     {"true",
      {"vit", "cropped", "resnet", "deep resnet", "torchscript", "torchscript of images", "bert",
       "bert from a folder", "adama", "dpo", "orpo", "offloaded"}}},
    {"run.threads", {"1"}},
    {"run.checkpoint_every", {"5"}},
    {"run.keep", {"1"}},
    {"run.keep_best", {.value = "true", .only_with = {"validation"}}},
    {"run.replica", {"copies"}},
    {"run.limits", {"[{file = \"temp\", above = 1, do = \"slow\"}]"}},
    {"run.eval_every", {.value = "5", .only_with = {"validation"}}},
    {"run.eval_batches", {.value = "5", .only_with = {"validation"}}},
    {"model.layers",
     {"8",
      {"gpt2 from a folder", "llama from a folder", "bert from a folder", "lora from a folder",
       "torchscript", "torchscript of images"}}},
    {"model.heads",
     {"2",
      {"gpt2 from a folder", "llama from a folder", "bert from a folder", "lora from a folder",
       "resnet", "deep resnet", "torchscript", "torchscript of images"}}},
    {"model.stem", {.value = "auto", .only_with = {"resnet", "deep resnet"}}},
    {"model.kv_heads", {.value = "2", .only_with = {"llama", "lora of llama"}}},
    {"model.width",
     {"48",
      {"gpt2 from a folder", "llama from a folder", "bert from a folder", "lora from a folder",
       "torchscript", "torchscript of images"}}},
    {"model.ffn_width", {.value = "100", .only_with = {"llama", "lora of llama", "bert"}}},
    {"model.context", {"16", {"resnet", "deep resnet", "torchscript of images"}}},
    {"model.vocab",
     {"300",
      {"gpt2 from a folder", "llama from a folder", "bert from a folder", "lora from a folder"}}},
    {"model.dropout", {"0.1", {"resnet", "deep resnet", "torchscript", "torchscript of images"}}},
    {"model.batchnorm",
     {.value = "micro",
      .only_with = {"resnet", "deep resnet", "torchscript", "torchscript of images"}}},
    {"model.accelerate", {.value = "on", .only_with = {"torchscript", "torchscript of images"}}},
    {"model.freeze", {"[\"wte\"]"}},
    {"model.base", {.value = "q8_0", .only_with = {"lora of llama"}}},
    {"lora.alpha", {.value = "8", .only_with = {"lora", "lora of llama"}}},
    {"lora.dropout",
     {.value = "0.1", .only_with = {"lora", "lora of llama", "lora from a folder"}}},
    {"lora.targets", {.value = "[\"mlp\"]", .only_with = {"lora", "lora of llama"}}},
    {"lora.kind", {.value = "dora", .only_with = {"lora", "lora of llama"}}},
    {"lora.rs", {.value = "true", .only_with = {"lora", "lora of llama"}}},
    {"data.train", {"c"}},
    {"data.val", {"c"}},
    {"data.exclude", {"d"}},
    {"data.val_fraction", {"0.1"}},
    {"data.tokenizer",
     {"bytes", {"vit", "cropped", "resnet", "deep resnet", "torchscript of images", "tokens"}}},
    {"data.order", {"shuffle"}},
    {"data.packing",
     {"false",
      {"vit", "cropped", "resnet", "deep resnet", "torchscript of images", "text", "tokens"}}},
    {"data.columns", {.value = "[\"ids\", \"labels\"]", .only_with = {"torchscript"}}},
    {"data.masks",
     {.value = "[\"masks/*.png\"]", .only_with = {"torchscript", "torchscript of images"}}},
    {"data.image", {.value = "64", .only_with = of_images}},
    {"data.augment.ratio", {.value = "[0.5, 2]", .only_with = {"cropped"}}},
    {"data.augment.pad", {.value = "0", .only_with = of_images}},
    {"data.augment.flip", {.value = "0.5", .only_with = of_images}},
    {"data.augment.brightness", {.value = "0.4", .only_with = of_images}},
    {"data.augment.contrast", {.value = "0.4", .only_with = of_images}},
    {"data.augment.saturation", {.value = "0.4", .only_with = of_images}},
    {"data.augment.hue", {.value = "0.1", .only_with = of_images}},
    {"data.augment.erase", {.value = "0.25", .only_with = of_images}},
    {"batch.samples", {"16"}},
    {"batch.micro", {"2"}},
    {"batch.schedule", {"[]"}},
    {"batch.ramp.over", {.value = "5", .only_with = {"ramped"}}},
    {"batch.ramp.by", {.value = "doubling", .only_with = {"ramped"}}},
    {"batch.last", {"drop"}},
    {"batch.max_quarantined", {"0.2"}},
    {"precision.loss_scale", {.value = "dynamic", .only_with = {"fp16"}}},
    {"precision.accumulate", {"fp32"}},
    {"memory.budget", {"1GiB"}},
    {"memory.budget_file", {"budget"}},
    {"memory.recompute", {"none"}},
    {"memory.accumulation", {"standard", {"offloaded"}}},
    {"memory.offload", {"\"\""}},
    {"memory.offload_budget", {.value = "40GiB", .only_with = {"offloaded"}}},
    {"loss.mask_fraction", {.value = "0.3", .only_with = {"bert", "bert from a folder"}}},
    {"loss.mask_token", {.value = "103", .only_with = {"bert", "bert from a folder"}}},
    {"loss.beta", {.value = "0.2", .only_with = {"dpo", "orpo"}}},
    {"loss.cross_entropy",
     {"plain",
      {"vit", "cropped", "resnet", "deep resnet", "torchscript", "torchscript of images", "dpo",
       "orpo"}}},
    {"loss.label_smoothing", {"0.1", {"dpo", "orpo"}}},
    {"loss.z_loss", {"0.1", {"dpo", "orpo"}}},
    {"loss.heads",
     {.value = "[{name = \"stars\", loss = \"mse\", output = \"0\", coefficient = 0.5}]",
      .only_with = {"torchscript", "torchscript of images"}}},
    {"loss.method", {.value = "loss", .only_with = {"torchscript", "torchscript of images"}}},
    {"optim.lr", {"0.1"}},
    {"optim.rates", {"[\"wte = 1e-5\"]"}},
    {"optim.betas", {"[0.8, 0.9]", {"sgd", "rmsprop"}}},
    {"optim.eps", {"1e-6", {"sgd"}}},
    {"optim.weight_decay", {"0.2"}},
    {"optim.decay", {"all"}},
    {"optim.momentum", {.value = "0.5", .only_with = {"sgd", "rmsprop"}}},
    {"optim.clip", {"0"}},
    {"optim.on_divergence", {"stop"}},
    {"optim.state", {"fp32"}},
    {"optim.schedule.warmup", {"5"}},
    {"optim.schedule.min_lr", {"1e-5", {"constant"}}},
    {"optim.base_batch", {.value = "2", .only_with = {"scaled"}}},
    {"dist.backend", {"gloo"}},
    {"dist.reduce", {"end", {"local steps", "stages"}}},
    {"dist.shares", {"equal", {"stages"}}},
    {"dist.shard_replica", {.value = "next", .only_with = {"divided"}}},
    {"dist.compress", {"none"}},
    {"dist.min_ranks", {"2", {"local steps", "stages", "compressed"}}},
    {"dist.timeout", {"9 s"}},
    {"adapt.min", {.value = "1", .only_with = {"adapted"}}},
    {"adapt.max", {.value = "64", .only_with = {"adapted"}}},
    {"adapt.geometry", {.value = "sign", .only_with = {"adapted"}}},
    {"dist.outer.parts", {.value = "2", .only_with = {"local steps"}}},
    {"dist.outer.delay", {.value = "2", .only_with = {"local steps"}}},
    {"adapt.lr_rule", {.value = "sqrt", .only_with = {"adapted", "ramped"}}},
    {"observe.jsonl", {"true"}},
    {"observe.noise", {"blocks"}},
    {"observe.histograms", {"\"200 steps\"", {"no tensorboard"}}},
    {"observe.progress", {"off"}}};

/// Keys that decide which others are read, or that exclude each other, are set by `variants`.
const std::vector<std::string> deciders{
    "run.steps",           "run.tokens",          "run.epochs",          "batch.tokens",
    "batch.micro_batches", "model.kind",          "model.from",          "data.format",
    "optim.kind",          "optim.scale_lr",      "optim.schedule.kind", "dist.stages",
    "dist.local_steps",    "dist.outer.lr",       "dist.outer.momentum", "memory.gradients",
    "dist.shard",          "observe.tensorboard", "loss.kind",           "lora.rank",
    "lora.from",           "data.augment.crop",   "adapt.batch",         "batch.ramp.from",
    "precision.compute"};

std::string answer(std::vector<std::string> overrides, const std::string& toml = base) {
  try {
    parse_config(toml, "run.toml", overrides);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
}

bool holds(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

TEST(Readers, OfEveryKeyWithEveryKind) {
  for (const auto& [key, expected] : expectations) {
    ASSERT_NE(find_key(key), nullptr) << key;
    for (const auto& [name, overrides] : variants) {
      std::vector<std::string> stated = overrides;
      // The other form of validation data excludes this one.
      if (key == "data.val_fraction") std::erase(stated, "data.val=b");
      ASSERT_EQ(answer(overrides), "accepted") << name;
      stated.push_back(key + "=" + expected.value);
      const bool refused = holds(expected.refused_with, name) ||
                           (!expected.only_with.empty() && !holds(expected.only_with, name));
      const std::string said = answer(stated);
      if (refused) {
        EXPECT_THAT(said, HasSubstr("config key " + key + " (--" + key)) << name;
      } else {
        EXPECT_EQ(said, "accepted") << key << " with " << name;
      }
    }
  }
}

TEST(Readers, AreKnownOfEveryKeyOfTheTable) {
  for (const Key& key : keys()) {
    const bool in_this_version = key.expected.find("not in this version") == std::string::npos ||
                                 expectations.contains(key.name) || holds(deciders, key.name);
    EXPECT_EQ(expectations.contains(key.name) || holds(deciders, key.name), in_this_version)
        << key.name << " is in no table of this test";
  }
}

TEST(Readers, AreNamedWithWhatTheConfigHasInstead) {
  const std::string said = answer({"optim.momentum=0.5"});
  EXPECT_THAT(said, HasSubstr("optim.momentum only with optim.kind = \"sgd\" or \"rmsprop\""));
  EXPECT_THAT(said, HasSubstr("received optim.kind = \"adamw\""));
  EXPECT_THAT(said, HasSubstr("try removing optim.momentum"));
  EXPECT_THAT(answer({}, std::string(base) + "[optim]\nmomentum = 0.9\n"),
              HasSubstr("run.toml:9:1"))
      << "the default, stated";
}

TEST(Readers, DecideWhatARunWritesDown) {
  const Config adamw = parse_config(base, "run.toml");
  EXPECT_THAT(to_toml(adamw), HasSubstr("betas"));
  EXPECT_THAT(to_toml(adamw), Not(HasSubstr("momentum")));
  for (const auto& [name, overrides] : variants) {
    const Config config = parse_config(base, "run.toml", overrides);
    EXPECT_EQ(answer({}, to_toml(config)), "accepted") << name;
    EXPECT_TRUE(differences(config, parse_config(to_toml(config), "config.toml")).empty()) << name;
  }
}

/// Earlier versions wrote every key into a run's config.toml.
TEST(Readers, AreNotAskedForByTheConfigOfARun) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "readers_test_run";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.toml")
      << base << "[optim]\nmomentum = 0.9\neps = 0\n[model]\nbatchnorm = \"error\"\n";
  EXPECT_THROW(load_config(folder / "config.toml"), Error) << "no run.json: a user's own";
  std::ofstream(folder / "run.json") << "{}";
  const Config of_run = load_config(folder / "config.toml");
  Config now = parse_config(base, "run.toml");
  now.optim.eps = 0;
  EXPECT_TRUE(differences(of_run, now).empty());
  EXPECT_THROW(load_config(folder / "config.toml", {"optim.momentum=0.5"}), Error)
      << "an override is the user's";
  std::filesystem::remove_all(folder);
}

TEST(Eps, IsNeverSoSmallThatAnUpdateIsZeroByZero) {
  for (const char* eps : {"0", "0.0", "1e-300"})
    EXPECT_THAT(answer({std::string("optim.eps=") + eps}), HasSubstr("that is 0 / 0")) << eps;
  EXPECT_EQ(answer({"optim.eps=1e-30"}), "accepted");
}

}  // namespace
}  // namespace accrue::train
