#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "accrue/kernels/cross_entropy.h"
#include "accrue/memory/thread_meter.h"
#include "kernels/gradients.h"

namespace accrue::kernels {
namespace {

using testing::leaf;
using testing::open_slot;

struct Shape {
  std::int64_t rows, channels, classes;
};

/// The most that forward and backward hold beside their arguments and the slot.
std::int64_t added_bytes(const Shape& shape, at::ScalarType compute, std::int64_t chunk_rows = 0) {
  const at::Tensor hidden = leaf({shape.rows, shape.channels}, compute, 1),
                   weight = leaf({shape.classes, shape.channels}, at::kFloat, 2);
  const at::Tensor targets = at::zeros({shape.rows}, at::kLong);
  const auto slot = open_slot(weight);
  LowPrecisionCopy copy;
  copy.of(weight, compute);  // made once a window, for all that use the weight
  const memory::ThreadMeter meter;
  const Loss loss = linear_cross_entropy(hidden, weight, targets, copy, {.chunk_rows = chunk_rows});
  loss.sum.backward();
  EXPECT_EQ(slot->contributions, 1);
  return meter.peak();
}

/// Targets, scalars and what autograd keeps of the call.
constexpr std::int64_t small_change = 20'000;

std::int64_t gradient_bytes(const Shape& shape, at::ScalarType compute) {
  return shape.rows * shape.channels * (compute == at::kBFloat16 ? 2 : 4);
}

TEST(CrossEntropyMemory, IsOneChunkAndTheGradientOfHidden) {
  const Shape shape{.rows = 200, .channels = 8, .classes = 4001};
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    const std::int64_t chunk = 50 * shape.classes * 4, gradient = gradient_bytes(shape, compute);
    EXPECT_LE(added_bytes(shape, compute, 50), chunk + gradient + small_change);
    EXPECT_GE(added_bytes(shape, compute, 50), chunk + gradient);
    // The meter would see whole logits.
    EXPECT_GE(added_bytes(shape, compute, shape.rows), 4 * chunk + gradient);
  }
}

/// The vocabulary of GPT-2, with few channels: the chunk does not depend on them.
TEST(CrossEntropyMemory, StaysWithin32MegabytesWithAVocabularyOf50304) {
  const Shape shape{.rows = 400, .channels = 4, .classes = 50'304};
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    const std::int64_t whole = shape.rows * shape.classes * 4;
    EXPECT_LE(added_bytes(shape, compute), 32'000'000);
    EXPECT_GE(added_bytes(shape, compute, shape.rows), whole);
  }
}

/// The tokens and channels of 4 x 1,024 tokens of GPT-2 124 M: in fp32 the gradient of hidden alone
/// takes 12.6 MB.
TEST(CrossEntropyMemory, LeavesLogitsLessWhereTheGradientOfHiddenIsLarge) {
  const Shape shape{.rows = 4096, .channels = 768, .classes = 1700};
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    EXPECT_LE(added_bytes(shape, compute), 32'000'000);
    EXPECT_GE(added_bytes(shape, compute, shape.rows), 34'000'000);
  }
}

}  // namespace
}  // namespace accrue::kernels
