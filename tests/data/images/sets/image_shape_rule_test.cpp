#include "data/images/sets/image_shape_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr ImageShape nothing_stated{};

TEST(ImageShapeRule, LeavesImagesOfOneShapeAlone) {
  for (const ImageShape& shape : {ImageShape{3, 33, 17}, ImageShape{1, 4000, 5}}) {
    const ShapeDecision decision = decide_image_shape({{shape, 7}}, nothing_stated);
    EXPECT_EQ(decision.shape, shape);
    EXPECT_THAT(decision.reason, IsEmpty());
  }
}

TEST(ImageShapeRule, TakesTheSizeThatMoreThanHalfHave) {
  const ShapeDecision most =
      decide_image_shape({{{1, 28, 28}, 3}, {{1, 30, 20}, 2}}, nothing_stated);
  EXPECT_EQ(most.shape, (ImageShape{1, 28, 28}));
  EXPECT_THAT(most.reason, AllOf(HasSubstr("2 images of other sizes are scaled to cover 28 x 28"),
                                 HasSubstr("the size that most have")));
  const ShapeDecision half =
      decide_image_shape({{{1, 28, 28}, 2}, {{1, 30, 20}, 2}}, nothing_stated);
  EXPECT_EQ(half.shape, (ImageShape{1, 16, 16})) << "the lower median is 20";
}

/// Sides of 10, ..., 10 (2 k + 1) in equal numbers have the median 10 (k + 1).
TEST(ImageShapeRule, TakesTheMedianOfTheShorterSidesInSteps) {
  const std::pair<std::int64_t, std::int64_t> of_medians[] = {
      {5, 5}, {8, 8}, {15, 8}, {31, 24}, {32, 32}, {100, 96}, {223, 192}, {224, 224}, {3000, 224}};
  for (const auto& [median, side] : of_medians) {
    const ShapeCounts counts{{{3, median - 1, median + 9}, 4},
                             {{3, median + 8, median}, 4},
                             {{3, median + 2, median + 3}, 4}};
    const ShapeDecision decision = decide_image_shape(counts, nothing_stated);
    EXPECT_EQ(decision.shape, (ImageShape{3, side, side})) << median;
    EXPECT_THAT(decision.reason,
                AllOf(HasSubstr("there are 3 sizes"),
                      HasSubstr("median of the shorter sides is " + std::to_string(median)),
                      HasSubstr("data.image")));
  }
}

TEST(ImageShapeRule, TakesTheSizeThatIsStated) {
  const ShapeDecision decision = decide_image_shape({{{3, 28, 28}, 1}}, {0, 64, 48});
  EXPECT_EQ(decision.shape, (ImageShape{3, 64, 48}));
  EXPECT_THAT(decision.reason, HasSubstr("1 image of other sizes is scaled to cover 64 x 48"));
  EXPECT_THAT(decide_image_shape({{{3, 64, 48}, 1}}, {0, 64, 48}).reason, IsEmpty());
}

TEST(ImageShapeRule, MakesColourOfGreyBesideColourAndGreyOnlyForATrainedModel) {
  const ShapeCounts mixed{{{1, 9, 9}, 2}, {{3, 9, 9}, 1}};
  const ShapeDecision colour = decide_image_shape(mixed, nothing_stated);
  EXPECT_EQ(colour.shape, (ImageShape{3, 9, 9}));
  EXPECT_THAT(colour.reason,
              AllOf(HasSubstr("2 images in grey taken as colour"), Not(HasSubstr("scaled"))));
  const ShapeDecision grey = decide_image_shape(mixed, {1, 9, 9});
  EXPECT_EQ(grey.shape, (ImageShape{1, 9, 9}));
  EXPECT_THAT(grey.reason, HasSubstr("1 image in colour turned grey"));
}

}  // namespace
}  // namespace accrue::data
