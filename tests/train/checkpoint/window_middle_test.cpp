#include "train/checkpoint/window_middle.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "train/checkpoint/state_reader.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// For a window of 7 samples in 3 micro-batches, two of which are done.
WindowMiddle middle_of_seven() {
  WindowMiddle middle{.window = 9,
                      .loss_scale = 64,
                      .loss_scaler = {{.scale = 64, .good_windows = 12}},
                      .micro_batch = 4,
                      .micro_batches = {{20, 23}, {23, 26}, {26, 27}},
                      .done = {},
                      .contributions = {{"a.weight", 2}, {"b", 1}},
                      .units = {-40, 3},
                      .noise_sums = {1, std::numeric_limits<double>::infinity()},
                      .tokens = 77,
                      .seconds = 1.5,
                      .unreadable = {{.sample_id = 21, .reason = "cut short"}}};
  DoneMicroBatch& first =
      middle.append({.micro = {.index = 0, .sample_ids = {20, 22}, .weight = 0.1},
                     .status = MicroStatus::committed,
                     .loss_sum = 1.0 / 3,
                     .reason = ""});
  first.loss_sums = {0.1, 0.2};
  first.loss_weights = {3, 4};
  first.measures = {5};
  middle.append({.micro = {.index = 1, .sample_ids = {23, 24, 25}},
                 .status = MicroStatus::quarantined,
                 .loss_sum = 0,
                 .reason = "its loss is not finite"});
  return middle;
}

WindowMiddle read(const json& in, std::int64_t window = 9) {
  const std::string operation = "read a test's checkpoint";
  return window_middle_from_json({in, "middle.", operation}, window);
}

TEST(WindowMiddleFile, GivesBackEveryBit) {
  const WindowMiddle before = middle_of_seven(), after = read(json::parse(to_json(before).dump()));
  EXPECT_EQ(after.window, 9);
  EXPECT_EQ(after.loss_scale, 64);
  EXPECT_EQ(after.loss_scaler->good_windows, 12);
  EXPECT_EQ(after.micro_batch, 4);
  EXPECT_EQ(after.micro_batches, before.micro_batches);
  EXPECT_THAT(after.contributions, ElementsAre(Pair("a.weight", 2), Pair("b", 1)));
  EXPECT_EQ(after.units, before.units);
  EXPECT_EQ(after.noise_sums[0], 1);
  EXPECT_TRUE(std::isnan(after.noise_sums[1])) << "JSON has no infinity";
  EXPECT_EQ(after.tokens, 77);
  EXPECT_EQ(after.seconds, 1.5);
  EXPECT_EQ(after.unreadable.at(0).reason, "cut short");
  ASSERT_EQ(after.done.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const DoneMicroBatch &is = after.done[i], &was = before.done[i];
    EXPECT_EQ(is.entry.micro.index, was.entry.micro.index);
    EXPECT_EQ(after.entry_of(i).micro.sample_ids, before.entry_of(i).micro.sample_ids);
    EXPECT_EQ(is.entry.micro.weight, was.entry.micro.weight);
    EXPECT_EQ(is.entry.status, was.entry.status);
    EXPECT_EQ(is.entry.loss_sum, was.entry.loss_sum);
    EXPECT_EQ(is.entry.reason, was.entry.reason);
    EXPECT_EQ(is.loss_sums, was.loss_sums);
    EXPECT_EQ(is.loss_weights, was.loss_weights);
    EXPECT_EQ(is.measures, was.measures);
  }
  EXPECT_EQ(after.in_words(), "2 of 3 micro-batches");
}

TEST(WindowMiddleFile, NamesSamplesOnlyWhereSomeWereLeftOut) {
  const json out = to_json(middle_of_seven());
  EXPECT_EQ(out["done"][0]["samples"], (std::vector<int>{20, 22}));
  EXPECT_FALSE(out["done"][1].contains("samples"));
  EXPECT_THAT(read(out).entry_of(0).micro.sample_ids, ElementsAre(20, 22));
  EXPECT_THAT(read(out).entry_of(1).micro.sample_ids, ElementsAre(23, 24, 25));
}

/// As for a rank whose part of the window changed with the ranks.
TEST(WindowMiddleFile, HasMicroBatchesThatDoNotFollowEachOther) {
  WindowMiddle before = middle_of_seven();
  before.micro_batches = {{20, 23}, {30, 33}, {23, 25}};
  before.exclude = {"a.png"};
  const json out = to_json(before);
  EXPECT_EQ(read(out).micro_batches, before.micro_batches);
  EXPECT_EQ(read(out).exclude, before.exclude);
  EXPECT_FALSE(to_json(middle_of_seven()).contains("begins")) << "sizes tell it there";
  for (const json& begins : {json{20, 22, 33}, json{20, 30}, json{20, -1, 23}, json("20")}) {
    json bad = out;
    bad["begins"] = begins;
    EXPECT_THAT(usage_message([&] { read(bad); }), HasSubstr("middle.begins")) << begins;
  }
}

TEST(WindowMiddleFile, IsRefusedWhereNoWindowCanHaveIt) {
  const json good = to_json(middle_of_seven());
  EXPECT_THAT(usage_message([&] { read(good, 8); }), HasSubstr("middle.window in state.json"));
  const auto refused = [&](const char* pointer, const json& value, const char* named) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    EXPECT_THAT(usage_message([&] { read(bad); }),
                AllOf(HasSubstr(named), HasSubstr("an earlier checkpoint")))
        << pointer;
  };
  refused("/done/0/status", "lost", "middle.done.status");
  refused("/done/0/weight", -1, "middle.done.weight");
  refused("/done/1", 3, "middle.done");
  refused("/sizes", {7, 0}, "middle.sizes");
  refused("/sizes", {6, 1}, "fewer than the window's 2 micro-batches");
  refused("/sizes", json::array(), "fewer than the window's 0 micro-batches");
  refused("/sizes", {std::int64_t{1} << 60U, std::int64_t{1} << 60U, 1}, "middle.sizes");
  refused("/contributions/b", "two", "middle.contributions.b");
  refused("/micro_batch", 0, "middle.micro_batch");
}

}  // namespace
}  // namespace accrue::train
