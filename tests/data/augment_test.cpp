#include "accrue/data/augment.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "data/images/transform/image_change.h"
#include "data/loader.h"
#include "folder.h"
#include "planted_images.h"
#include "refusal.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using testing::make_picture;

constexpr ImageShape large{.channels = 3, .height = 1000, .width = 1000};
constexpr ImageShape small{.channels = 3, .height = 32, .width = 32};
constexpr std::int64_t drawn_images = 20'000;

const Augment all_changes{.crop = Interval{0.2, 1},
                          .flip = 0.5,
                          .brightness = 0.4,
                          .contrast = 0.4,
                          .saturation = 0.4,
                          .hue = 0.1,
                          .erase = 0.5};

std::string usage_refusal(const std::function<void()>& call) {
  return testing::refusal(Error::Kind::usage, call);
}

std::vector<double> drawn(const Augment& augment, const ImageShape& from,
                          const std::function<double(const ImageChange&)>& quantity) {
  std::vector<double> values;
  for (std::int64_t draw = 0; draw < drawn_images; ++draw)
    values.push_back(quantity(draw_change(augment, {.seed = 3, .draw = draw}, from, small)));
  return values;
}

/// Kolmogorov's statistic, times the root of the number of values, of a distribution function.
double distance(std::vector<double> values, const std::function<double(double)>& distribution) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = distribution(values[i]), at = static_cast<double>(i);
    most = std::max({most, std::abs(expected - at / count), std::abs((at + 1) / count - expected)});
  }
  return most * std::sqrt(count);
}

std::function<double(double)> evenly(double least, double most) {
  return [=](double value) { return std::clamp((value - least) / (most - least), 0.0, 1.0); };
}

/// A draw of that distribution is further away once in a thousand times.
constexpr double once_in_a_thousand = 1.95;

TEST(Augment, SharesOfTheAreaAreEvenlyDrawnAndProportionsInTheirLogarithm) {
  const Augment augment{.crop = Interval{0.1, 0.5}};  // any such box fits into a square
  const auto share = [](const ImageChange& change) {
    return static_cast<double>(change.crop->height * change.crop->width) / 1e6;
  };
  const auto logarithm = [](const ImageChange& change) {
    return std::log(static_cast<double>(change.crop->width) /
                    static_cast<double>(change.crop->height));
  };
  EXPECT_LT(distance(drawn(augment, large, share), evenly(0.1, 0.5)), once_in_a_thousand);
  EXPECT_LT(distance(drawn(augment, large, logarithm), evenly(std::log(0.75), -std::log(0.75))),
            once_in_a_thousand);
  EXPECT_GT(distance(drawn(augment, large, share), evenly(0.12, 0.5)), once_in_a_thousand);
  EXPECT_GT(distance(drawn(augment, large, logarithm), evenly(std::log(0.75), 0.3)),
            once_in_a_thousand);
}

TEST(Augment, EveryPlaceOfABoxIsAsLikely) {
  const Augment augment{.crop = Interval{0.1, 0.5}};
  // A position from 0 to n is made uniform over [0, 1) by spreading it over its own n + 1st part.
  const auto down = [](const ImageChange& change) {
    return (static_cast<double>(change.crop->top) + 0.5) /
           static_cast<double>(1000 - change.crop->height + 1);
  };
  const auto right = [](const ImageChange& change) {
    return (static_cast<double>(change.crop->left) + 0.5) /
           static_cast<double>(1000 - change.crop->width + 1);
  };
  EXPECT_LT(distance(drawn(augment, large, down), evenly(0, 1)), once_in_a_thousand);
  EXPECT_LT(distance(drawn(augment, large, right), evenly(0, 1)), once_in_a_thousand);
}

/// Pearson's statistic of counts that are expected to be equal.
double unevenness(const std::map<double, std::int64_t>& counts, std::size_t cells) {
  const double expected = static_cast<double>(drawn_images) / static_cast<double>(cells);
  double sum = static_cast<double>(cells - counts.size()) * expected;
  for (const auto& [value, count] : counts)
    sum += std::pow(static_cast<double>(count) - expected, 2) / expected;
  return sum;
}

std::map<double, std::int64_t> counted(const std::vector<double>& values) {
  std::map<double, std::int64_t> counts;
  for (const double value : values) ++counts[value];
  return counts;
}

TEST(Augment, ShiftsAndOrdersOfColoursAreAsLikelyAsEachOther) {
  const auto shift = [](const ImageChange& change) {
    return static_cast<double>(9 * change.shift_y + change.shift_x);
  };
  // For 80 and 23 degrees of freedom 124.8 and 49.7 are exceeded once in a thousand times.
  EXPECT_LT(unevenness(counted(drawn({.pad = 4}, small, shift)), 81), 124.8);
  EXPECT_GT(unevenness(counted(drawn({.pad = 3}, small, shift)), 81), 124.8);
  const auto order = [](const ImageChange& change) {
    double code = 0;
    for (const ColourChange& colour : change.colours)
      code = 4 * code + static_cast<double>(colour.aspect);
    return code;
  };
  EXPECT_LT(unevenness(counted(drawn(all_changes, small, order)), 24), 49.7);
}

TEST(Augment, FactorsAreEvenlyDrawnAndChancesAreKept) {
  const auto amount = [](ColourAspect aspect) {
    return [aspect](const ImageChange& change) {
      for (const ColourChange& colour : change.colours)
        if (colour.aspect == aspect) return colour.amount;
      return std::nan("");
    };
  };
  const Augment augment{.flip = 0.3, .brightness = 0.4, .contrast = 1.5, .hue = 0.2, .erase = 0.1};
  EXPECT_LT(distance(drawn(augment, small, amount(ColourAspect::brightness)), evenly(0.6, 1.4)),
            once_in_a_thousand);
  EXPECT_LT(distance(drawn(augment, small, amount(ColourAspect::contrast)), evenly(0, 2.5)),
            once_in_a_thousand);
  EXPECT_LT(distance(drawn(augment, small, amount(ColourAspect::hue)), evenly(-0.2, 0.2)),
            once_in_a_thousand);
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const double flipped = mean(drawn(
      augment, small, [](const ImageChange& change) { return change.is_flipped ? 1.0 : 0.0; }));
  const double erased = mean(
      drawn(augment, small, [](const ImageChange& change) { return change.erased ? 1.0 : 0.0; }));
  // The deviation of a share p of n draws is sqrt(p (1 - p) / n): 0.0032 and 0.0021.
  EXPECT_NEAR(flipped, 0.3, 0.0107);
  EXPECT_NEAR(erased, 0.1, 0.007);
}

TEST(Augment, BoxesLieInsideImagesOfAnyShape) {
  Augment augment = all_changes;
  augment.erase = 1;
  for (const auto& [height, width] : {std::pair(1, 1), std::pair(1, 500), std::pair(300, 2),
                                      std::pair(7, 9), std::pair(33, 130)}) {
    const ImageShape image{.channels = 3, .height = height, .width = width};
    for (std::int64_t draw = 0; draw < 500; ++draw) {
      const ImageChange change = draw_change(augment, {.seed = 1, .draw = draw}, image, image);
      for (const auto& box : {change.crop, change.erased}) {
        if (!box) continue;
        EXPECT_GE(box->top, 0);
        EXPECT_GE(box->left, 0);
        EXPECT_LE(box->top + box->height, image.height);
        EXPECT_LE(box->left + box->width, image.width);
      }
      EXPECT_GE(change.crop->height, 1);
      EXPECT_GE(change.crop->width, 1);
    }
  }
}

TEST(Augment, AnImageTooLongForAnyBoxKeepsItsMiddle) {
  const ImageShape strip{.channels = 3, .height = 10, .width = 1000};
  const ImageChange change = draw_change({.crop = Interval{0.9, 1}}, {}, strip, small);
  EXPECT_EQ(change.crop->height, 10);
  EXPECT_EQ(change.crop->width, 13);  // 10 * 4 / 3, rounded
  EXPECT_EQ(change.crop->left, (1000 - 13) / 2);
}

TEST(Augment, WhatElseIsAskedForDoesNotMoveADraw) {
  const ImageChange alone = draw_change({.flip = 0.5, .hue = 0.1}, {7, 11}, large, small);
  const ImageChange among = draw_change(all_changes, {7, 11}, large, small);
  EXPECT_EQ(alone.is_flipped, among.is_flipped);
  for (const ColourChange& colour : among.colours) {
    if (colour.aspect != ColourAspect::hue) continue;
    EXPECT_EQ(colour.amount, alone.colours.at(0).amount);
  }
}

/// Two folders of images of several sizes.
class AugmentedImages : public ::testing::Test {
 protected:
  AugmentedImages() {
    for (int i = 0; i < 6; ++i)
      folder_.write((i % 2 == 0 ? "cat/" : "dog/") + std::to_string(i) + ".png",
                    testing::png(make_picture(12 + i, 20 - i, 3, static_cast<std::uint64_t>(i))));
  }

  std::shared_ptr<const Source> open(const Augment& augment, std::uint64_t seed = 5) const {
    return open_source({.globs = {folder_.path("*/*.png")},
                        .image = {.channels = 0, .height = 8, .width = 8},
                        .augment = augment,
                        .seed = seed},
                       "data.train");
  }

  static Loader loader_of(const std::shared_ptr<const Source>& source) {
    return Loader(source, batch::Sampler(source->size(), batch::Order::shuffle, 9));
  }

  Folder folder_;
};

TEST_F(AugmentedImages, AreTheSameHoweverTheDrawsAreSplitAndOnWhicheverThread) {
  const auto source = open(all_changes);
  Loader loader = loader_of(source);
  const at::Tensor whole = loader.fetch({3, 14}).inputs;
  EXPECT_TRUE(at::equal(whole, at::cat({loader.fetch({3, 4}).inputs, loader.fetch({4, 9}).inputs,
                                        loader.fetch_draws({9, 10, 11, 12, 13}).inputs})));
  loader.prefetch({{3, 8}, {8, 14}});
  const at::Tensor first = loader.next().inputs;
  EXPECT_TRUE(at::equal(whole, at::cat({first, loader.next().inputs})));
  const auto part = std::shared_ptr<const Source>(slice(source, 2, 6));
  const std::vector<std::int64_t> indices{1}, shifted{3}, ordinals{40};
  EXPECT_TRUE(at::equal(part->fetch_drawn(indices, ordinals).inputs,
                        source->fetch_drawn(shifted, ordinals).inputs));
}

TEST_F(AugmentedImages, DifferFromDrawToDrawAndSeedToSeedButNotInEvaluation) {
  const auto plain = open({}), augmented = open(all_changes), other = open(all_changes, 6);
  const std::vector<std::int64_t> index{1}, draw{1}, later{7};
  const at::Tensor once = augmented->fetch_drawn(index, draw).inputs;
  EXPECT_FALSE(at::equal(once, augmented->fetch_drawn(index, later).inputs));
  EXPECT_FALSE(at::equal(once, other->fetch_drawn(index, draw).inputs));
  EXPECT_TRUE(at::equal(augmented->fetch(index).inputs, plain->fetch(index).inputs));
  EXPECT_TRUE(at::equal(plain->fetch_drawn(index, draw).inputs, plain->fetch(index).inputs));
  EXPECT_EQ(augmented->fingerprint(), plain->fingerprint());
}

TEST_F(AugmentedImages, CropsAreTakenFromThePixelsOfTheFile) {
  testing::Picture picture = make_picture(256, 256, 3, 1);
  for (std::size_t i = 0; i < picture.pixels.size(); ++i)
    picture.pixels[i] = i / 3 % 2 == 0 ? 0 : 255;  // alternating columns
  constexpr double share = 64.0 / (256 * 256);
  const Folder folder;
  for (const char* name : {"a/1.png", "b/1.png"}) folder.write(name, testing::png(picture));
  const auto source = open_source({.globs = {folder.path("*/*.png")},
                                   .image = {.channels = 0, .height = 8, .width = 8},
                                   .augment = {.crop = Interval{share, share}, .ratio = {1, 1}}},
                                  "data.train");
  const std::vector<std::int64_t> index{0}, draw{0};
  // A crop of 8 x 8 pixels is not scaled: its columns are black and white. A scaled image is all
  // grey.
  EXPECT_TRUE(at::equal(source->fetch_drawn(index, draw).inputs.abs(), at::ones({1, 3, 8, 8})));
  EXPECT_LT(source->fetch(index).inputs.abs().max().item<float>(), 0.1);
}

TEST_F(AugmentedImages, TellWhatIsDoneAndRefuseWhatDoesNotFit) {
  EXPECT_THAT(open(all_changes)->remarks().back(),
              HasSubstr("changed at random: cropped to 0.2 to 1 of their area"));
  EXPECT_THAT(open({})->remarks(), ::testing::Not(::testing::Contains(HasSubstr("random"))));
  EXPECT_THAT(usage_refusal([&] { open({.pad = 8}); }), HasSubstr("data.augment.pad"));
  const Folder grey;
  for (const char* name : {"a/1.png", "b/1.png"})
    grey.write(name, testing::png(make_picture(8, 8, 1, 1)));
  const auto open_grey = [&](const Augment& augment) {
    return open_source({.globs = {grey.path("*/*.png")}, .augment = augment}, "data.train");
  };
  EXPECT_THAT(usage_refusal([&] { open_grey({.hue = 0.1}); }), HasSubstr("received hue"));
  EXPECT_THAT(usage_refusal([&] { open_grey({.saturation = 0.1}); }),
              HasSubstr("received saturation"));
  EXPECT_NO_THROW(open_grey({.brightness = 0.1, .contrast = 0.1}));
  const Folder text;
  text.write("a.txt", "some text");
  EXPECT_THAT(usage_refusal([&] {
                open_source({.globs = {text.path("a.txt")}, .context = 2, .augment = {.flip = 1}},
                            "data.train");
              }),
              HasSubstr("data.augment: expected images"));
}

}  // namespace
}  // namespace accrue::data
