#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "accrue/kernels/cross_entropy.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gradients.h"
#include "memory/thread_meter.h"
#include "support/kernels.h"

namespace accrue::kernels {
namespace cross_entropy_memory_test {

using testing::leaf;
using testing::open_slot;

struct Shape {
  std::int64_t rows, channels, classes;
};

struct Setting {
  at::ScalarType compute;
  bool overwrite_hidden = false;
  std::int64_t chunk_rows = 0;
};
constexpr Setting all_settings[] = {
    {at::kFloat}, {at::kBFloat16}, {at::kFloat, true}, {at::kBFloat16, true}};

/// The peak memory of forward and backward in addition to their arguments and the slot: all tensors
/// that they allocate. With `overwrite_hidden` these do not include the gradient of `hidden`.
std::int64_t added_bytes(const at::Tensor& hidden, const at::Tensor& weight,
                         const Setting& setting) {
  const at::Tensor targets = at::zeros({hidden.size(0)}, at::kLong);
  PreparedWeight copy;
  copy.copy(weight, setting.compute);  // made once per window, for all uses of the weight
  const memory::ThreadMeter meter;
  const Loss loss = linear_cross_entropy(
      hidden, weight, targets, copy,
      {.chunk_rows = setting.chunk_rows, .overwrite_hidden = setting.overwrite_hidden});
  loss.sum.backward();
  return meter.peak();
}

std::int64_t added_bytes(const Shape& shape, const Setting& setting) {
  const at::Tensor hidden = leaf({shape.rows, shape.channels}, setting.compute, 1),
                   weight = leaf({shape.classes, shape.channels}, at::kFloat, 2);
  const auto slot = open_slot(weight);
  const std::int64_t bytes = added_bytes(hidden, weight, setting);
  EXPECT_EQ(slot->contributions, 1);
  return bytes;
}

/// Targets, scalars and the tensors that autograd keeps for the call.
constexpr std::int64_t small_change = 20'000;

std::int64_t gradient_bytes(const Shape& shape, const Setting& setting) {
  if (setting.overwrite_hidden) return 0;
  return shape.rows * shape.channels * (setting.compute == at::kBFloat16 ? 2 : 4);
}

/// The memory for products on a processor without bf16 products.
std::int64_t product_bytes(const Setting& setting) {
  return setting.compute == at::kBFloat16 ? bf16_scratch_bytes() : 0;
}

/// Logits, or exponentials in bf16 and 3,840 logits; and the chunk's gradient of `hidden` in fp32
/// if it is not summed in place.
std::int64_t chunk_bytes(const Shape& shape, const Setting& setting, std::int64_t rows) {
  const bool half = setting.compute == at::kBFloat16;
  const std::int64_t values = half ? shape.classes * 2 + 3840 * 4 : shape.classes * 4;
  return rows * (values + (half || setting.overwrite_hidden ? shape.channels * 4 : 0));
}

TEST(CrossEntropyMemory, IsOneChunkAndTheGradientOfHidden) {
  if (testing::by_aten())
    return testing::not_possible_here("the chunks are those of accrue's own kernel");
  const Shape shape{.rows = 200, .channels = 8, .classes = 4001};
  for (Setting setting : all_settings) {
    const std::int64_t gradient = gradient_bytes(shape, setting);
    setting.chunk_rows = 50;
    const std::int64_t bytes = added_bytes(shape, setting);
    EXPECT_LE(bytes,
              chunk_bytes(shape, setting, 50) + gradient + product_bytes(setting) + small_change);
    EXPECT_GE(bytes, chunk_bytes(shape, setting, 50) + gradient);
    // The meter would detect full logits.
    setting.chunk_rows = shape.rows;
    EXPECT_GE(added_bytes(shape, setting), 4 * chunk_bytes(shape, setting, 50) + gradient);
  }
}

/// The vocabulary of GPT-2, with few channels: the chunk hardly depends on their number.
TEST(CrossEntropyMemory, StaysWithin32MegabytesWithAVocabularyOf50304) {
  if (testing::by_aten())
    return testing::not_possible_here("the chunks are those of accrue's own kernel");
  const Shape shape{.rows = 400, .channels = 4, .classes = 50'304};
  for (Setting setting : all_settings) {
    EXPECT_LE(added_bytes(shape, setting), 32'000'000);
    setting.chunk_rows = shape.rows;
    EXPECT_GE(added_bytes(shape, setting), chunk_bytes(shape, setting, shape.rows));
  }
}

/// The vocabulary of Qwen: within 32 MB a chunk would have too few rows to pay for reading the
/// weight.
TEST(CrossEntropyMemory, GrowsWithAVocabularyOf151936) {
  if (testing::by_aten())
    return testing::not_possible_here("the chunks are those of accrue's own kernel");
  const Shape shape{.rows = 400, .channels = 4, .classes = 151'936};
  for (const Setting& setting : all_settings) {
    const std::int64_t bytes = added_bytes(shape, setting);
    EXPECT_LE(bytes, 386 * shape.classes + product_bytes(setting) + 1'000'000);
    EXPECT_GE(bytes, 250 * shape.classes);
  }
}

/// The tokens and channels of 4 x 1,024 tokens of GPT-2 124 M: in fp32 the gradient of hidden alone
/// takes 12.6 MB.
TEST(CrossEntropyMemory, LeavesAChunkLessWhereTheGradientOfHiddenIsLarge) {
  if (testing::by_aten())
    return testing::not_possible_here("the chunks are those of accrue's own kernel");
  const Shape shape{.rows = 4096, .channels = 768, .classes = 1700};
  for (Setting setting : all_settings) {
    EXPECT_LE(added_bytes(shape, setting), 32'000'000);
    setting.chunk_rows = shape.rows;
    EXPECT_GE(added_bytes(shape, setting), 34'000'000);
  }
}

/// 4 x 1,024 tokens of GPT-2 124 M. All is allocated before the first chunk, which is the last one
/// here because it is not finite.
TEST(CrossEntropyMemory, StaysWithin32MegabytesAtTheShapeOfGpt2) {
  if (testing::by_aten())
    return testing::not_possible_here("the chunks are those of accrue's own kernel");
  const Shape shape{.rows = 4096, .channels = 768, .classes = 50'304};
  const at::Tensor weight = at::zeros({shape.classes, shape.channels}).requires_grad_(true);
  const auto slot = open_slot(weight);
  for (const Setting& setting : all_settings) {
    const at::Tensor hidden = at::full({shape.rows, shape.channels},
                                       std::numeric_limits<double>::quiet_NaN(), setting.compute)
                                  .requires_grad_(true);
    const std::int64_t bytes = added_bytes(hidden, weight, setting);
    EXPECT_LE(bytes, 32'000'000);
    // The allowed memory is used for rows; scratch memory of products comes and goes.
    EXPECT_GE(bytes, 30'000'000 - product_bytes(setting));
  }
  EXPECT_EQ(slot->contributions, 0);
}

/// As in a loop that divides a mean by the number of its micro-batches.
TEST(CrossEntropyMemory, HoldsOneGradientOfTheWeightWhereTheUpstreamIsAnother) {
  const at::Tensor hidden = leaf({64, 64}, at::kFloat, 1), weight = leaf({8000, 64}, at::kFloat, 2);
  const at::Tensor targets = at::zeros({64}, at::kLong);
  const auto held = [&](bool keeps_graph) {
    PreparedWeight copy;
    const memory::ThreadMeter meter;
    const at::Tensor part =
        linear_cross_entropy(hidden, weight, targets, copy, {.chunk_rows = 4}).sum * 0.25;
    const auto gradients = torch::autograd::grad({part}, {weight}, {}, keeps_graph);
    return meter.peak();
  };
  const auto gradient_bytes = static_cast<std::int64_t>(weight.nbytes());
  EXPECT_LT(held(false), gradient_bytes + gradient_bytes / 2);
  EXPECT_GE(held(true), 2 * gradient_bytes);  // it can be asked again
}

/// Evaluation only needs the logits of one block of classes.
TEST(CrossEntropyMemory, IsABlockOfLogitsWhereNoGradientIsWanted) {
  if (testing::by_aten())
    return testing::not_possible_here("the chunks are those of accrue's own kernel");
  const Shape shape{.rows = 400, .channels = 4, .classes = 50'304};
  for (const Setting& setting : all_settings) {
    const at::NoGradGuard no_grad;
    const at::Tensor hidden = leaf({shape.rows, shape.channels}, setting.compute, 1),
                     weight = leaf({shape.classes, shape.channels}, at::kFloat, 2),
                     targets = at::zeros({shape.rows}, at::kLong);
    PreparedWeight copy;
    copy.copy(weight, setting.compute);
    const memory::ThreadMeter meter;
    linear_cross_entropy(hidden, weight, targets, copy,
                         {.overwrite_hidden = setting.overwrite_hidden});
    EXPECT_LE(meter.peak(), shape.rows * 3840 * 4 + product_bytes(setting) + small_change);
  }
}

}  // namespace cross_entropy_memory_test
}  // namespace accrue::kernels
