#include "accrue/train/effective_batch.h"

#include <gtest/gtest.h>

#include <random>

namespace accrue::train {
namespace {

std::string words(std::int64_t samples, const std::vector<std::int64_t>& micro_batches,
                  std::int64_t tokens = 0) {
  EffectiveBatch batch = divide_batch(samples, micro_batches);
  batch.tokens = tokens;
  return in_words(batch);
}

TEST(EffectiveBatch, IsAProductWhereAllIsEqual) {
  EXPECT_EQ(words(32, {8}), "8 samples x 4 accumulation steps = 32 samples");
  EXPECT_EQ(words(64, {16}), "16 samples x 4 accumulation steps = 64 samples");
  EXPECT_EQ(words(128, {8}), "8 samples x 16 accumulation steps = 128 samples");
  EXPECT_EQ(words(512, {8}, 524'288),
            "8 samples x 64 accumulation steps = 512 samples, 524,288 tokens");
  EXPECT_EQ(words(64, {8, 8}), "8 samples x 4 accumulation steps x 2 ranks = 64 samples");
  EXPECT_EQ(words(1, {1}), "1 sample x 1 accumulation step = 1 sample");
}

TEST(EffectiveBatch, IsASumElse) {
  EXPECT_EQ(words(30, {8}), "3 x 8 + 6 = 30 samples in 4 accumulation steps");
  EXPECT_EQ(words(9, {8}), "8 + 1 = 9 samples in 2 accumulation steps");
  EXPECT_EQ(words(30, {8, 8}),
            "1 rank x (2 x 8) + 1 rank x (8 + 6) = 30 samples in at most 2 accumulation steps");
  EXPECT_EQ(words(32, {32, 32}),
            "1 rank x (32) + 1 rank x (0) = 32 samples in 1 accumulation step");
  EXPECT_EQ(words(40, {8, 8, 8}),
            "2 ranks x (2 x 8) + 1 rank x (8) = 40 samples in at most 2 accumulation steps");
}

TEST(EffectiveBatch, SaysWhatVaries) {
  EffectiveBatch batch = divide_batch(16, {8});
  batch.tokens = 5000;
  batch.samples_vary = true;
  EXPECT_EQ(in_words(batch),
            "8 samples x 2 accumulation steps = about 16 samples, at most 5000 tokens");
  batch.samples_vary = false;
  batch.tokens_vary = true;
  EXPECT_EQ(in_words(batch), "8 samples x 2 accumulation steps = 16 samples, about 5000 tokens");
}

TEST(EffectiveBatch, HasItsFactorsInShort) {
  EXPECT_EQ(in_short(divide_batch(32, {8})), "8 x 4 = 32 samples");
  EXPECT_EQ(in_short(divide_batch(64, {8, 8})), "8 x 4 x 2 = 64 samples");
  EXPECT_EQ(in_short(divide_batch(30, {8})), "30 samples");
  EffectiveBatch batch = divide_batch(16, {8});
  batch.samples_vary = true;
  EXPECT_EQ(in_short(batch), "8 x 2 = about 16 samples");
}

TEST(EffectiveBatch, CountsIdleRanks) {
  EXPECT_EQ(divide_batch(32, {16, 16}).idle_ranks(), 0);
  EXPECT_EQ(divide_batch(32, {32, 32}).idle_ranks(), 1);
  EXPECT_EQ(divide_batch(2, {1, 1, 1, 1, 1}).idle_ranks(), 3);
}

/// Every sample is counted, and a product is one.
TEST(EffectiveBatch, SumsToTheBatch) {
  std::mt19937_64 random(11);
  const auto draw = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  int products = 0;
  for (int round = 0; round < 500; ++round) {
    const std::int64_t samples = draw(100);
    std::vector<std::int64_t> micro_batches(static_cast<std::size_t>(draw(5)), draw(20));
    if (draw(3) == 1) micro_batches.back() = draw(20);
    const EffectiveBatch batch = divide_batch(samples, micro_batches);
    EXPECT_EQ(batch.samples(), samples);
    const std::int64_t product = batch.micro_batch() * batch.accumulation_steps() *
                                 static_cast<std::int64_t>(micro_batches.size());
    EXPECT_GE(product, samples);
    if (batch.is_product()) {
      EXPECT_EQ(product, samples);
      ++products;
    }
  }
  EXPECT_GT(products, 20);
}

}  // namespace
}  // namespace accrue::train
