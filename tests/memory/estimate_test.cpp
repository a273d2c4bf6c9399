#include "memory/estimate.h"

#include <gtest/gtest.h>

namespace accrue::memory {
namespace {

constexpr std::int64_t billion = 1'000'000'000;

TEST(SixteenBitState, IsTheUsualArithmetic) {
  const Resident state = sixteen_bit_state(1'300'000'000);
  EXPECT_EQ(state.parameters, 2'600'000'000);
  EXPECT_EQ(state.gradients, 2'600'000'000);
  EXPECT_EQ(state.optimizer, 5'200'000'000);
  EXPECT_EQ(state.total(), 10'400'000'000);
}

TEST(StateBytes, AreThoseOfEachParameter) {
  const Resident fp32 = state_bytes(billion, {});
  EXPECT_EQ(fp32.parameters, 4 * billion);
  EXPECT_EQ(fp32.gradients, 4 * billion);
  EXPECT_EQ(fp32.optimizer, 8 * billion);
  const ValueBytes bf16{.operand = 2}, fp64{.master = 8, .operand = 8};
  EXPECT_EQ(state_bytes(billion, {.values = bf16}).parameters, 6 * billion)
      << "with a bf16 copy of the weights";
  EXPECT_EQ(state_bytes(billion, {.values = fp64}).parameters, 8 * billion);
  EXPECT_EQ(frozen_bytes(bf16), 6);
  EXPECT_EQ(frozen_bytes(fp64), 8);
  EXPECT_EQ(state_bytes(billion, {.gradient = 0}).gradients, 0);
  EXPECT_EQ(state_bytes(billion, {.moments = 2.5}).optimizer, 2.5 * billion);
}

TEST(Gpt2Parameters, AreThePublishedCounts) {
  // Radford et al., 2019, with the head tied: 124,439,808 and 1,557,611,200.
  EXPECT_EQ(gpt2_parameters({.layers = 12, .width = 768, .tokens = 1024}, 50'257), 124'439'808);
  EXPECT_EQ(gpt2_parameters({.layers = 48, .width = 1600, .tokens = 1024}, 50'257), 1'557'611'200);
}

TEST(TransformerActivations, GrowWithTokensAndLayersAndShrinkWithRecomputation) {
  const TransformerShape shape{.layers = 24, .width = 2048, .heads = 16, .tokens = 2048};
  const auto none = transformer_activations(shape, {}, Recompute::none);
  const auto selective = transformer_activations(shape, {}, Recompute::selective);
  const auto full = transformer_activations(shape, {}, Recompute::full);
  EXPECT_LT(selective, none);
  EXPECT_LT(full, selective / 4);
  EXPECT_LT(transformer_activations(shape, {.operand = 2}, Recompute::none), none);
  TransformerShape twice = shape;
  twice.tokens *= 2;
  EXPECT_EQ(transformer_activations(twice, {}, Recompute::none), 2 * none);
}

TEST(OnePass, OfAWholeBatchTakesHundredsOfGigabytes) {
  // 1.3 B parameters, 524,288 tokens: 64 micro-batches of 4 x 2048.
  const TransformerShape shape{.layers = 24, .width = 2048, .heads = 16, .tokens = 2048};
  const std::int64_t micro_batches = 524'288 / (4 * 2048);
  EXPECT_EQ(micro_batches, 64);
  const std::int64_t one_pass = micro_batches * 4 * sixteen_bit_activations(shape);
  EXPECT_GT(one_pass, 200 * billion);
  EXPECT_LT(one_pass, 1000 * billion);
}

TEST(LargestMicroBatch, FitsBesideTheState) {
  const Resident state = sixteen_bit_state(1'300'000'000);
  const std::int64_t bytes = 24 * billion;  // less 3%: 23.28
  EXPECT_EQ(largest_micro_batch(bytes, state, 2 * billion, 256), 6);
  EXPECT_EQ(largest_micro_batch(bytes, state, 2 * billion, 4), 4);
  EXPECT_EQ(largest_micro_batch(10 * billion, state, 1, 4), 0);
}

TEST(Offers, BreakEvenWhereTheCheaperDeviceIsAsMuchSlower) {
  const RunCost cost = run_cost(3.6e9, {.price_per_hour = 2, .tokens_per_second = 1e5});
  EXPECT_DOUBLE_EQ(cost.hours, 10);
  EXPECT_DOUBLE_EQ(cost.money, 20);
  // A published case: 17.3% more time, 31.2% less cost.
  const Offer first{.price_per_hour = 1, .tokens_per_second = 1173};
  const Offer second{.price_per_hour = 0.688 / 1.173, .tokens_per_second = 1000};
  const OfferComparison found = compare(first, second);
  EXPECT_NEAR(found.time_ratio, 1.173, 1e-12);
  EXPECT_NEAR(found.cost_ratio, 1 - 0.312, 1e-12);
  const Offer dearer{.price_per_hour = found.break_even_price, .tokens_per_second = 1000};
  EXPECT_NEAR(compare(first, dearer).cost_ratio, 1, 1e-12);
  const Offer slower{.price_per_hour = second.price_per_hour,
                     .tokens_per_second = found.break_even_tokens_per_second};
  EXPECT_NEAR(compare(first, slower).cost_ratio, 1, 1e-12);
}

}  // namespace
}  // namespace accrue::memory
