#include "train/plan/activation_placement.h"

#include <gtest/gtest.h>

#include "accrue/models/resnet.h"

namespace accrue::train {
namespace {

TEST(ActivationPlacement, IsAFileWhereTheWindowsCutsTakeMoreThanAQuarterOfTheMemory) {
  const ActivationPlacement memory = decide_activation_placement(
      {.bytes_per_sample = 10, .window_samples = 25, .available_bytes = 1000});
  EXPECT_FALSE(memory.in_file);
  EXPECT_NE(memory.reason.find("in memory"), std::string::npos) << memory.reason;
  const ActivationPlacement file = decide_activation_placement(
      {.bytes_per_sample = 10, .window_samples = 26, .available_bytes = 1000});
  EXPECT_TRUE(file.in_file);
  EXPECT_NE(file.reason.find("mapped file"), std::string::npos) << file.reason;
}

TEST(ActivationPlacement, CountsActivationsAndGradientsAtTheCuts) {
  models::ResNet model({.layers = 8, .width = 4, .classes = 3, .image = {1, 8, 8}});
  batch::MicroBatch one{
      .inputs = at::zeros({1, 1, 8, 8}), .targets = at::zeros({1}, at::kLong), .sample_ids = {0}};
  // conv1; then for each block its first convolution with the block's input, and its second with
  // the shortcut: 4 channels of 8 x 8, 8 of 4 x 4, 16 of 2 x 2.
  const std::int64_t first = 4 * 64, second = 8 * 16, third = 16 * 4;
  const std::int64_t floats =
      first + 4 * first + (second + first) + 2 * second + (third + second) + 2 * third;
  const std::int64_t gradients_of_largest = first + first;
  EXPECT_EQ(cut_bytes_per_sample(model, one), 4 * (floats + gradients_of_largest));
}

}  // namespace
}  // namespace accrue::train
