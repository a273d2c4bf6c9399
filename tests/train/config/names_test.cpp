#include "names.h"

#include <gtest/gtest.h>

#include "key.h"

namespace accrue::train {
namespace {

TEST(NearestKey, WeighsTheNameOverTheSection) {
  EXPECT_EQ(nearest_key("lr"), "optim.lr");
  EXPECT_EQ(nearest_key("training.steps"), "run.steps");
  EXPECT_EQ(nearest_key("optim.shedule.warmup"), "optim.schedule.warmup");
  EXPECT_EQ(nearest_key("batch.tokns"), "batch.tokens");
  EXPECT_EQ(nearest_key("run.tokns"), "run.tokens");
}

TEST(NearestKey, OfEveryKeyWithALetterLeftOutIsThatKey) {
  for (const Key& key : keys()) {
    const std::string misspelt = key.name.substr(0, key.name.size() - 1);
    if (find_key(misspelt) || misspelt.ends_with(".")) continue;
    EXPECT_EQ(nearest_key(misspelt), key.name);
  }
}

TEST(Keys, AreUniqueAndSpeak) {
  for (const Key& key : keys()) {
    EXPECT_EQ(find_key(key.name), &key) << key.name;
    EXPECT_FALSE(key.expected.empty()) << key.name;
  }
}

TEST(Translation, NeverHidesAKeyOfOurs) {
  for (const Key& key : keys()) EXPECT_TRUE(find_key(key.name)) << key.name;
  EXPECT_EQ(translation("optim.lr"), std::nullopt);
  EXPECT_TRUE(translation("trainer.Accumulate-Grad-Batches"));
  EXPECT_TRUE(translation("fp16"));
}

}  // namespace
}  // namespace accrue::train
