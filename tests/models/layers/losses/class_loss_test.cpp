#include "accrue/models/class_loss.h"

#include "models/image_support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::close;
using ::testing::HasSubstr;
using namespace models::testing;

constexpr std::int64_t mask_count = 3, mask_classes = 4, mask_height = 5, mask_width = 6;

/// Masks with some pixels ignored.
batch::MicroBatch masks_of_pixels() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  batch::MicroBatch micro;
  micro.targets = at::randint(0, mask_classes, {mask_count, mask_height, mask_width}, generator,
                              at::TensorOptions().dtype(at::kLong));
  micro.targets.masked_fill_(
      at::rand({mask_count, mask_height, mask_width}, generator, at::TensorOptions()).lt(0.2),
      -100);
  micro.inputs = at::zeros({mask_count, 1, mask_height, mask_width});
  for (std::int64_t i = 0; i < mask_count; ++i) micro.sample_ids.push_back(i);
  return micro;
}

at::Tensor logits_of_pixels(at::ScalarType dtype) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(8);
  return at::randn({mask_count, mask_classes, mask_height, mask_width}, generator,
                   at::TensorOptions().dtype(at::kDouble))
      .to(dtype)
      .requires_grad_(true);
}

double counted(const batch::MicroBatch& micro) {
  return micro.targets.ne(-100).sum().item<double>();
}

/// By the definition, pixel after pixel: logsumexp less the target's logit, in fp64.
at::Tensor by_definition(const at::Tensor& logits, const batch::MicroBatch& micro) {
  const at::Tensor x = logits.to(at::kDouble), keep = micro.targets.ne(-100);
  const at::Tensor own = x.gather(1, micro.targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  return (x.logsumexp(1) - own).masked_select(keep).sum();
}

TEST(PixelCrossEntropy, IsTheSumOverPixelsThatCount) {
  const batch::MicroBatch micro = masks_of_pixels();
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const at::MemoryFormat format :
         {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor logits = logits_of_pixels(dtype);
      const at::Tensor reference = logits.detach().to(at::kDouble).requires_grad_(true);
      const at::Tensor expected = by_definition(reference, micro);
      const Loss loss = pixel_cross_entropy(logits.contiguous(format), micro);
      EXPECT_EQ(loss.weight, counted(micro));
      EXPECT_TRUE(close(loss.sum, expected, dtype, micro.targets.numel()));
      loss.sum.backward();
      expected.backward();
      EXPECT_TRUE(close(logits.grad(), reference.grad(), dtype, mask_classes));
      EXPECT_TRUE(
          logits.grad().movedim(1, -1).index({micro.targets.eq(-100)}).eq(0).all().item<bool>());
    }
  }
}

TEST(PixelCrossEntropy, IsSeenToBeWrongWhereClassesAreTakenForRows) {
  const batch::MicroBatch micro = masks_of_pixels();
  const at::Tensor logits = logits_of_pixels(at::kDouble);
  const at::Tensor by_rows = at::cross_entropy_loss(
      logits.reshape({-1, mask_classes}), micro.targets.flatten(), {}, at::Reduction::Sum, -100);
  EXPECT_FALSE(close(by_rows, by_definition(logits, micro), at::kDouble, micro.targets.numel()));
}

TEST(PixelCrossEntropy, IsTheLossOfModelsWhoseTargetsAreMasks) {
  const batch::MicroBatch micro = masks_of_pixels();
  const at::Tensor logits = logits_of_pixels(at::kDouble);
  const LossHead head = class_cross_entropy_head({.label_smoothing = 0.1});
  EXPECT_EQ(head.weight(micro), counted(micro));
  const Loss evaluated = head.forward({logits}, micro, {.training = false}, 1);
  EXPECT_TRUE(close(evaluated.sum, by_definition(logits, micro), at::kDouble, 90));
  const Loss smoothed = head.forward({logits}, micro, {.training = true}, 1);
  const at::Tensor expected =
      at::cross_entropy_loss(logits, micro.targets, {}, at::Reduction::Sum, -100, 0.1);
  EXPECT_TRUE(close(smoothed.sum, expected, at::kDouble, 90));
  const at::Tensor right = logits.argmax(1).eq(micro.targets);
  EXPECT_EQ(head.correct({logits}, micro), right.sum().item<double>());
}

/// Nested lists with as many classes as the last list is long: exchanged dimensions would fit, too.
TEST(PixelCrossEntropy, IsNotThatOfOtherTargetsOfThreeDimensions) {
  batch::MicroBatch micro = masks_of_pixels();
  micro.inputs = at::zeros({mask_count, mask_classes}, at::kLong);
  micro.targets = micro.targets.narrow(1, 0, mask_classes).narrow(2, 0, mask_classes).contiguous();
  const at::Tensor logits = logits_of_pixels(at::kDouble)
                                .detach()
                                .narrow(2, 0, mask_classes)
                                .narrow(3, 0, mask_classes)
                                .contiguous();
  // Here [B, K, K, K] is [B, T, 4, K].
  const LossHead head = class_cross_entropy_head();
  const Loss loss = head.forward({logits}, micro, {.training = true}, 1);
  EXPECT_TRUE(close(loss.sum, by_definition(logits.movedim(-1, 1), micro), at::kDouble, 48));
  EXPECT_FALSE(close(loss.sum, by_definition(logits, micro), at::kDouble, 48));
  const at::Tensor right = logits.argmax(-1).eq(micro.targets);
  EXPECT_EQ(head.correct({logits}, micro), right.sum().item<double>());
}

TEST(PixelCrossEntropy, WeighsPixels) {
  batch::MicroBatch micro = masks_of_pixels();
  micro.weights = at::full({mask_count, mask_height, mask_width}, 0.5F);
  const at::Tensor logits = logits_of_pixels(at::kDouble);
  const Loss loss = pixel_cross_entropy(logits, micro);
  EXPECT_EQ(loss.weight, counted(micro) / 2);
  EXPECT_TRUE(close(loss.sum, by_definition(logits, micro) / 2, at::kDouble, 90));
}

TEST(PixelCrossEntropy, RefusesLogitsOfAnotherSize) {
  const batch::MicroBatch micro = masks_of_pixels();
  const std::string said = message_of([&] {
    pixel_cross_entropy(at::zeros({mask_count, mask_classes, mask_height, mask_width + 1}), micro);
  });
  EXPECT_THAT(said, HasSubstr("[B, K, H, W]"));
  EXPECT_THAT(said, HasSubstr("[3, 4, 5, 7]"));
  EXPECT_THAT(message_of([&] { pixel_cross_entropy({}, micro); }), HasSubstr("no tensor"));
}

}  // namespace
}  // namespace accrue::models
