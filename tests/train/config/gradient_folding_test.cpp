#include "train/config/gradient_folding.h"

#include <gmock/gmock.h>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Config adama() {
  Config config;
  config.optim.kind = OptimizerKind::adama;
  config.optim.clip = 0;
  return config;
}

Config folded_sgd() {
  Config config;
  config.optim.kind = OptimizerKind::sgd;
  config.memory.gradients = GradientPlace::optimizer;
  config.optim.clip = 0;
  return config;
}

std::string key_of(const Config& config) {
  const auto conflict = optimizer_memory_conflict(config);
  return conflict ? conflict->key : "";
}

TEST(GradientFolding, IsAskedForByKindOrByKey) {
  EXPECT_TRUE(folds_gradients(adama()));
  EXPECT_TRUE(folds_gradients(folded_sgd()));
  const Config plain;
  EXPECT_FALSE(folds_gradients(plain));
  EXPECT_THAT(key_of(plain), IsEmpty());
}

TEST(GradientFolding, IsStatedWhereTheOptimizerDecidesIt) {
  Config config = adama();
  config.run.steps = 1;
  config.data.train = {"a"};
  config.batch.tokens = 256;
  const std::string text = to_toml(config);
  EXPECT_THAT(text, HasSubstr("gradients = \"optimizer\""));
  EXPECT_THAT(differences(config, parse_config(text, "run.toml")), IsEmpty());
}

/// The table of docs/guide/config.md: everything in a row is refused with its key; everything else
/// can be combined.
TEST(GradientFolding, IsRefusedWithWhatItCannotDo) {
  for (const Config& base : {adama(), folded_sgd()}) {
    EXPECT_THAT(key_of(base), IsEmpty());
    const auto with = [&](auto&& change) {
      Config config = base;
      change(config);
      return key_of(config);
    };
    EXPECT_EQ(with([](Config& c) { c.optim.clip = 1; }), "optim.clip");
    EXPECT_EQ(with([](Config& c) { c.optim.state = optim::StatePrecision::int8; }), "optim.state");
    EXPECT_EQ(with([](Config& c) { c.precision.accumulate = accum::Accumulation::fixed; }),
              "precision.accumulate");
    EXPECT_EQ(with([](Config& c) { c.model.batchnorm = models::BatchNormPolicy::exact; }),
              "model.batchnorm");
    for (const auto state : {optim::StatePrecision::fp32, optim::StatePrecision::bf16})
      for (const auto compute : {models::Compute::fp32, models::Compute::bf16})
        EXPECT_THAT(with([&](Config& c) {
                      c.optim.state = state;
                      c.precision.compute = compute;
                      c.model.batchnorm = models::BatchNormPolicy::micro;
                      c.batch.max_quarantined = 0.5;
                    }),
                    IsEmpty());
  }
}

TEST(GradientFolding, NeedsAStateThatTakesGradientsAsTheyCome) {
  for (const auto kind : {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::rmsprop}) {
    Config config = folded_sgd();
    config.optim.kind = kind;
    EXPECT_EQ(key_of(config), "memory.gradients") << to_string(kind);
  }
  Config without = folded_sgd();
  without.optim.momentum = 0;
  EXPECT_EQ(key_of(without), "memory.gradients");
}

TEST(OptimizerState, OfDoubleParametersIsDouble) {
  for (const auto state : {optim::StatePrecision::bf16, optim::StatePrecision::int8}) {
    Config config;
    config.precision.compute = models::Compute::fp64;
    config.optim.state = state;
    EXPECT_EQ(key_of(config), "optim.state");
  }
}

TEST(GradientFolding, IsCheckedWithTheConfig) {
  const auto parse = [](const std::string& optim) {
    parse_config(
        "[run]\nsteps = 1\n[data]\ntrain = [\"a\"]\n[batch]\ntokens = 256\n[optim]\n" + optim,
        "run.toml");
  };
  parse("kind = \"adama\"\nclip = 0\n");
  try {
    parse("kind = \"adama\"\n");
    FAIL() << "clipping is the default, and was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), HasSubstr("config key optim.clip: expected 0, since the norm"));
    EXPECT_THAT(error.what(), HasSubstr("try optim.clip = 0"));
  }
}

}  // namespace
}  // namespace accrue::train
