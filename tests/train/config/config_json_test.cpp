#include "train/config/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::HasSubstr;

constexpr const char* plain_run = R"(
[run]
steps = 100
[data]
train = ["a.txt"]
[batch]
tokens = 512
)";

constexpr const char* unusual_run = R"(
[run]
out = "runs/\"a\"\tb\\c"
tokens = 1_000_000
seed = 9_007_199_254_740_993
checkpoint_every = "500 steps"
[model]
kind = "resnet"
layers = 20
width = 8
batchnorm = "exact"
[data]
train = ["a/*.png", "b.png"]
val = ["c.png"]
exclude = ["a/old.png"]
image = [24, 32]
augment = {crop = [0.25, 1], flip = 0.5}
[batch]
samples = 64
[optim]
kind = "sgd"
lr = 0.1
momentum = 0.95
schedule.kind = "linear"
schedule.warmup = "1%"
scale_lr = "linear"
base_batch = 32
[dist]
outer.lr = 0.7
)";

TEST(ConfigJson, IsNestedBySectionsAndStatesWhatIsRead) {
  const nlohmann::json json = to_json(parse_config(plain_run, "run.toml"));
  EXPECT_EQ(json["run"]["steps"], 100);
  EXPECT_EQ(json["run"]["seed"], 1337);
  EXPECT_EQ(json["data"]["train"], nlohmann::json::array({"a.txt"}));
  EXPECT_EQ(json["batch"]["micro"], "auto");
  EXPECT_EQ(json["optim"]["schedule"]["kind"], "cosine");
  EXPECT_EQ(json["optim"]["clip"], 1.0);
  EXPECT_FALSE(json["optim"].contains("momentum")) << "adamw does not read it";
}

TEST(ConfigJson, ReadsBackToAnEqualConfig) {
  for (const char* const text : {plain_run, unusual_run}) {
    const Config config = parse_config(text, "run.toml");
    const nlohmann::json json = nlohmann::json::parse(to_json(config).dump());
    const Config again = config_from_json(json, "run.json");
    EXPECT_EQ(to_toml(again), to_toml(config));
    EXPECT_TRUE(differences(again, config).empty());
  }
}

TEST(ConfigJson, TakesOverridesOnTop) {
  const nlohmann::json json = to_json(parse_config(plain_run, "run.toml"));
  const Config config =
      config_from_json(json, "run.json", {"run.epochs=2", "batch.samples=32", "optim.lr=1e-2"});
  EXPECT_EQ(config.run.epochs, 2);
  EXPECT_FALSE(config.run.steps);
  EXPECT_EQ(config.batch.samples, 32);
  EXPECT_FALSE(config.batch.tokens);
  EXPECT_EQ(config.optim.lr, 1e-2);
}

TEST(ConfigJson, RefusesWhatThisVersionDoesNotHaveByName) {
  nlohmann::json json = to_json(parse_config(plain_run, "run.toml"));
  json["optim"]["lookahead"] = 5;
  EXPECT_THAT(usage_message([&] { config_from_json(json, "out/run.json"); }),
              ::testing::AllOf(HasSubstr("optim.lookahead"), HasSubstr("out/run.json")));
  json["optim"].erase("lookahead");
  json["optim"]["lr"] = nlohmann::json::object({{"a", 1}});
  EXPECT_THAT(usage_message([&] { config_from_json(json, "run.json"); }), HasSubstr("optim.lr"));
  json["optim"]["lr"] = nullptr;
  EXPECT_THAT(usage_message([&] { config_from_json(json, "run.json"); }), HasSubstr("optim.lr"));
  json["optim"]["lr"] = 1;
  json["run"]["seed"] = std::uint64_t{1} << 63;
  EXPECT_THAT(usage_message([&] { config_from_json(json, "run.json"); }), HasSubstr("run.seed"));
  EXPECT_THAT(usage_message([&] { config_from_json(5, "run.json"); }), HasSubstr("number"));
}

TEST(ConfigJson, IsRefusedHoweverDeepItIs) {
  nlohmann::json deep = 1, nested = 1;
  for (int i = 0; i < 100; ++i) {
    deep = nlohmann::json::object({{"a", deep}});
    nested = nlohmann::json::array({nested});
  }
  EXPECT_THAT(usage_message([&] { config_from_json(deep, "run.json"); }), HasSubstr("a.a.a"));
  nlohmann::json json = to_json(parse_config(plain_run, "run.toml"));
  json["data"]["train"] = nested;
  EXPECT_THAT(usage_message([&] { config_from_json(json, "run.json"); }), HasSubstr("data.train"));
}

}  // namespace
}  // namespace accrue::train
