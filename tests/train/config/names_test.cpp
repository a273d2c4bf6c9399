#include "train/config/names.h"

#include <gtest/gtest.h>

#include "train/config/key.h"

namespace accrue::train {
namespace {

std::string nearest_name(const std::string& name) {
  const Key* key = nearest_key(name);
  return key ? key->name : "none";
}

TEST(NearestKey, WeighsTheNameOverTheSection) {
  EXPECT_EQ(nearest_name("lr"), "optim.lr");
  EXPECT_EQ(nearest_name("training.steps"), "run.steps");
  EXPECT_EQ(nearest_name("optim.shedule.warmup"), "optim.schedule.warmup");
  EXPECT_EQ(nearest_name("batch.tokns"), "batch.tokens");
  EXPECT_EQ(nearest_name("run.tokns"), "run.tokens");
  EXPECT_EQ(nearest_name("Optim.Weight-Decay"), "optim.weight_decay");
  EXPECT_EQ(nearest_name("optim.lrate"), "optim.lr");
}

TEST(NearestKey, TakesOtherSignsBetweenItsParts) {
  EXPECT_EQ(nearest_name("optim_lr"), "optim.lr");
  EXPECT_EQ(nearest_name("schedule_kind"), "optim.schedule.kind");
  EXPECT_EQ(nearest_name("outer-lr"), "dist.outer.lr");
}

TEST(NearestKey, OfEveryKeyWithALetterLeftOutIsThatKey) {
  for (const Key& key : keys()) {
    const std::string misspelt = key.name.substr(0, key.name.size() - 1);
    if (find_key(misspelt) || misspelt.ends_with(".")) continue;
    EXPECT_EQ(nearest_name(misspelt), key.name);
  }
}

/// Each used to get the nearest of all keys as a suggestion, however far.
TEST(NearestKey, IsNoneWhereNothingIsNear) {
  for (const char* name :
       {"accum_steps", "use_amp", "optim.nesterov", "run.wandb", "model.rope_theta", "x", "optim.q",
        "frobnicate", "train.ema", "loss.focal_gamma", "a.b.c"})
    EXPECT_EQ(nearest_name(name), "none") << name;
}

TEST(Sections, AreWhatKeysLieIn) {
  EXPECT_TRUE(is_section("optim"));
  EXPECT_TRUE(is_section("optim.schedule"));
  EXPECT_FALSE(is_section("optim.lr"));
  EXPECT_FALSE(is_section("opt"));
}

TEST(Keys, AreUniqueAndSpeak) {
  for (const Key& key : keys()) {
    EXPECT_EQ(find_key(key.name), &key) << key.name;
    EXPECT_FALSE(key.expected.empty()) << key.name;
  }
}

}  // namespace
}  // namespace accrue::train
