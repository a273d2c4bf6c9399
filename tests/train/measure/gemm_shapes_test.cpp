#include "train/measure/gemm_shapes.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(GemmShapes, CountTwelveWidthSquaredPerLayerSixTimesPerToken) {
  const ModelConfig model{.layers = 3, .heads = 2, .width = 8, .context = 16, .vocab = 50};
  double flops = 0;
  for (const GemmShape& shape : gemm_shapes(model, 10)) flops += shape.flops();
  EXPECT_DOUBLE_EQ(flops, 10 * 6.0 * (3 * 12 * 8 * 8 + 50 * 8));
}

}  // namespace
}  // namespace accrue::train
