// Windows that ranks close before they are complete, to keep them in their middle; the ranks are
// threads of this process.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "accrue/models/safetensors.h"
#include "support/tolerance.h"
#include "train/checkpoint/state_reader.h"
#include "train/ranks/shared_middles.h"
#include "train/ranks/single_process.h"
#include "train/run/run_window.h"
#include "train/thread_ranks.h"
#include "train/window/micro_batch_runner.h"
#include "train/window/tokens_and_marks.h"

namespace accrue::train {
namespace {

using accrue::testing::relative_error;
using accum::Accumulation;
using ::testing::AnyOf;
using testing::kLossMicro;
using testing::kLossSamples;
using testing::TokensAndMarks;
using Parts = std::vector<batch::Range>;

constexpr int kNever = 1 << 20;

/// Ranks that add up their sums and can close a window early.
class Closing final : public testing::SumOfRanks {
 public:
  Closing(distributed::DeferredReduce& reduce, SharedMiddles& middles, bool stops)
      : SumOfRanks(reduce), reduce_(reduce), middles_(middles), stops_(stops) {}
  void close(accum::Window& window, WindowRun& run) override {
    close_shared_window(window, reduce_, {.to_stop = stops_}, {}, run);
    middles_.closed(reduce_.totals().of_ranks);
    closes += 1;
  }
  int closes = 0;

 private:
  distributed::DeferredReduce& reduce_;
  SharedMiddles& middles_;
  bool stops_;
};

/// The tasks of ranks in two windows.
struct Course {
  Parts parts = {};                 ///< of each window, by rank
  std::vector<int> wishes = {};     ///< when each wishes a close of the second window, in questions
  bool stops = false;               ///< instead of continuing
  std::set<std::int64_t> bad = {};  ///< samples whose loss is not finite
  Accumulation accumulation = Accumulation::fixed;
  bool overlap = true;
  std::optional<StartedWindow> started = {};  ///< the second window, if it was started before
  std::int64_t micro_batch = kLossMicro;
};

/// The result of the second window on one rank.
struct Came {
  at::Tensor gradient;
  WindowRun run;
  std::optional<StartedWindow> kept;  ///< as read from a checkpoint
  int passes = 0, closes = 0;
  std::vector<std::string> quarantines;
};

StartedWindow through_a_file(const StartedWindow& kept) {
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) /
      ("accrue_closed_early_" + std::to_string(::getpid()) + ".safetensors");
  models::write_stored_safetensors(file, kept.tensors);
  const std::string operation = "read a test's window", text = to_json(kept.middle).dump();
  const nlohmann::json told = nlohmann::json::parse(text);
  StartedWindow read{window_middle_from_json({told, "middle.", operation}, kept.middle.window),
                     stored(models::read_safetensors(file).tensors)};
  std::filesystem::remove(file);
  return read;
}

std::vector<std::string> quarantines_of(const testing::Recorder& recorder) {
  std::vector<std::string> reasons;
  for (const Event& event : recorder.events)
    if (event.name == "quarantine") reasons.push_back(event.reason);
  return reasons;
}

class RankOfCourse {
 public:
  RankOfCourse(const Course& course, TokensAndMarks& model,
               std::shared_ptr<distributed::Group> group)
      : course_(course),
        model_(model),
        ranks_(std::move(group)),
        middles_(ranks_, {course.parts.size(), {.micro_batch = course.micro_batch}}),
        buffer_(std::make_shared<accum::GradientBuffer>(model.parameters(), course.accumulation)),
        reduce_(ranks_.make_reduce(config_of(course), buffer_)),
        window_(buffer_),
        loader_(testing::make_samples()),
        closing_(*reduce_, middles_, course.stops),
        runner_({model, window_, loader_, 1, told_.log, told_.control, told_.retries},
                {.max_quarantined = 0.5, .reduce = reduce_.get(), .keeper = keeper()}) {
    window_.set_reduction(reduce_.get());
  }

  Came run() {
    take_window(0, {});
    const int passes_before = model_.passes, closes_before = closing_.closes;
    is_second_ = true;
    came_.run = take_window(1, course_.started);
    came_.passes = model_.passes - passes_before;
    came_.closes = closing_.closes - closes_before;
    came_.quarantines = quarantines_of(*told_.recorder);
    if (came_.run.gradient) {
      came_.run.gradient->materialize();
      came_.gradient = model_.parameters()[0].tensor.grad().clone();
      came_.run.gradient.reset();
    }
    ranks_.add_up({1}, "the turns of the test");
    return std::move(came_);
  }

 private:
  static Config config_of(const Course& course) {
    Config config;
    config.dist.reduce = course.overlap ? Reduce::overlap : Reduce::end;
    return config;
  }

  WindowKeeper keeper() {
    return {.is_due =
                [this](double) {
                  const auto rank = static_cast<std::size_t>(ranks_.rank());
                  return is_second_ && !course_.wishes.empty() && asked_++ == course_.wishes[rank];
                },
            .keep = [this](const StartedWindow& started) { came_.kept = through_a_file(started); },
            .ranks = &middles_,
            .micro_batch = [this] { return course_.micro_batch; }};
  }

  WindowRun take_window(std::int64_t index, const std::optional<StartedWindow>& started) {
    middles_.begin({0, kLossSamples});
    const batch::Range part = course_.parts[static_cast<std::size_t>(ranks_.rank())];
    WindowRequest request = WindowRequest::even(index, part, course_.micro_batch);
    if (started)
      request.go_on_from({middles_.part_of(started->middle),
                          ranks_.is_first() ? started->tensors : stored_buffers(model_)},
                         course_.micro_batch);
    return run_window({window_, runner_, closing_, told_.retries, told_.log}, std::move(request));
  }

  const Course& course_;
  TokensAndMarks& model_;
  Ranks ranks_;
  SharedMiddles middles_;
  std::shared_ptr<accum::GradientBuffer> buffer_;
  std::unique_ptr<distributed::DeferredReduce> reduce_;
  accum::Window window_;
  data::Loader loader_;
  testing::Told told_;
  Closing closing_;
  Came came_;
  bool is_second_ = false;
  int asked_ = 0;
  MicroBatchRunner runner_;
};

std::vector<Came> take(const Course& course) {
  std::vector<Came> ranks(course.parts.size());
  std::vector<std::unique_ptr<TokensAndMarks>> models;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    models.push_back(std::make_unique<TokensAndMarks>(course.bad));
  testing::run_thread_ranks(ranks.size(), [&](std::size_t rank, const auto& group) {
    ranks[rank] = RankOfCourse(course, *models[rank], group).run();
  });
  return ranks;
}

/// Runs the windows in one process.
Came take_alone(const Course& course) {
  TokensAndMarks model(course.bad);
  const auto buffer =
      std::make_shared<accum::GradientBuffer>(model.parameters(), course.accumulation);
  accum::Window window(buffer);
  data::Loader loader = testing::make_samples();
  testing::Told told;
  SingleProcess alone;
  MicroBatchRunner runner({model, window, loader, 1, told.log, told.control, told.retries},
                          {.max_quarantined = 0.5});
  const auto take = [&](std::int64_t index, const std::optional<StartedWindow>& started) {
    WindowRequest request = WindowRequest::even(index, {0, kLossSamples}, course.micro_batch);
    if (started) request.go_on_from(*started, course.micro_batch);
    return run_window({window, runner, alone, told.retries, told.log}, std::move(request));
  };
  take(0, {});
  const int passes_before = model.passes;
  Came came{.run = take(1, course.started),
            .passes = model.passes - passes_before,
            .quarantines = quarantines_of(*told.recorder)};
  came.run.gradient->materialize();
  came.gradient = model.parameters()[0].tensor.grad().clone();
  came.run.gradient.reset();
  return came;
}

int passes_of(const std::vector<Came>& ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), 0,
                         [](int sum, const Came& rank) { return sum + rank.passes; });
}

void expect_same(const Came& is, const Came& was, Accumulation accumulation) {
  ASSERT_TRUE(is.gradient.defined());
  if (accumulation == Accumulation::fixed)
    EXPECT_TRUE(at::equal(is.gradient, was.gradient));
  else
    EXPECT_LT(relative_error(is.gradient, was.gradient), 1e-14);
  EXPECT_EQ(is.run.weight, was.run.weight);
  EXPECT_EQ(is.run.tokens, was.run.tokens);
  EXPECT_EQ(is.run.micro_batches, was.run.micro_batches);
  EXPECT_EQ(is.run.quarantined, was.run.quarantined);
  EXPECT_NEAR(is.run.loss_sum / was.run.loss_sum, 1, 1e-14);
  for (const auto& [name, mean] : was.run.losses) EXPECT_NEAR(is.run.losses.at(name), mean, 1e-12);
}

void expect_same(const std::vector<Came>& ranks, const Came& was, Accumulation accumulation) {
  for (const Came& rank : ranks) expect_same(rank, was, accumulation);
}

const Parts kThree{{0, 4}, {4, 8}, {8, 12}};

class ClosedEarly : public ::testing::TestWithParam<std::tuple<Accumulation, bool>> {
 protected:
  Course course(Parts parts, std::vector<int> wishes) const {
    return {.parts = std::move(parts),
            .wishes = std::move(wishes),
            .accumulation = std::get<0>(GetParam()),
            .overlap = std::get<1>(GetParam())};
  }
};

/// At any place of the ranks: before their first micro-batch, between two, after the last, which a
/// reduction overlaps, or without work.
TEST_P(ClosedEarly, GoesOnToTheSameBitsAndRunsNothingTwice) {
  const Came whole = take_alone(course({}, {}));
  ASSERT_EQ(whole.passes, 6);
  for (const auto& [parts, wishes] : {std::pair{kThree, std::vector{1, kNever, kNever}},
                                      {kThree, {kNever, kNever, 0}},
                                      {kThree, {0, 0, 0}},
                                      {kThree, {1, 1, 1}},
                                      {kThree, {kNever, 1, 0}},
                                      {Parts{{0, 12}, {12, 12}}, {3, kNever}},
                                      {Parts{{0, 0}, {0, 12}}, {kNever, 4}}}) {
    const Course once = course(parts, wishes);
    const std::vector<Came> ranks = take(once);
    expect_same(ranks, whole, once.accumulation);
    EXPECT_EQ(passes_of(ranks), 6);
    for (const Came& rank : ranks) EXPECT_EQ(rank.closes, 2);
    ASSERT_TRUE(ranks[0].kept);
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) EXPECT_FALSE(ranks[rank].kept);
  }
}

TEST_P(ClosedEarly, GoesOnLaterWithAnyNumberOfRanks) {
  const Came whole = take_alone(course({}, {}));
  Course stopping = course(kThree, {1, kNever, 1});
  stopping.stops = true;
  const std::vector<Came> stopped = take(stopping);
  for (const Came& rank : stopped) {
    EXPECT_TRUE(rank.run.interrupted);
    EXPECT_EQ(rank.closes, 1);
  }
  ASSERT_TRUE(stopped[0].kept);
  const int done = static_cast<int>(stopped[0].kept->middle.done.size());
  EXPECT_THAT(done, AnyOf(2, 3, 4)) << "rank 1 hears of it in time, or not";
  for (const Parts& parts :
       {Parts{{0, 6}, {6, 12}}, kThree, Parts{{0, 4}, {4, 8}, {8, 10}, {10, 12}}}) {
    Course rest = course(parts, {});
    rest.started = stopped[0].kept;
    const std::vector<Came> ranks = take(rest);
    expect_same(ranks, whole, rest.accumulation);
    EXPECT_EQ(passes_of(ranks), 6 - done);
  }
  Course alone = course({}, {});
  alone.started = stopped[0].kept;
  const Came rest = take_alone(alone);
  expect_same(rest, whole, alone.accumulation);
  EXPECT_EQ(rest.passes, 6 - done);
}

INSTANTIATE_TEST_SUITE_P(Sums, ClosedEarly,
                         ::testing::Combine(::testing::Values(Accumulation::fixed,
                                                              Accumulation::fp32),
                                            ::testing::Bool()));

/// A bad sample that was left out before is not found again, and a later one makes all ranks rerun
/// their done part without it. Each is reported once.
TEST(ClosedEarlyWindow, LeavesOutWhatIsNotFinite) {
  for (const std::int64_t bad : {4, 10}) {
    const Came whole = take_alone({.bad = {bad}});
    ASSERT_EQ(whole.run.quarantined, 1);
    const std::vector<Came> ranks = take({.parts = kThree, .wishes = {1, 1, 1}, .bad = {bad}});
    expect_same(ranks, whole, Accumulation::fixed);
    std::size_t told = 0;
    for (const Came& rank : ranks) told += rank.quarantines.size();
    EXPECT_EQ(told, 2U) << "once in each window";
    const std::vector<Came> stopped =
        take({.parts = kThree, .wishes = {1, 1, 1}, .stops = true, .bad = {bad}});
    const Came rest = take_alone({.bad = {bad}, .started = stopped[0].kept});
    expect_same(rest, whole, Accumulation::fixed);
    EXPECT_EQ(rest.quarantines.size(), 2U);
  }
}

/// The control: without the sums of one rank the result differs.
TEST(ClosedEarlyWindow, WithTheSumsOfOneRankAloneIsAnotherWindow) {
  const Came whole = take_alone({});
  const std::vector<Came> stopped = take({.parts = kThree, .wishes = {1, 1, 1}, .stops = true});
  StartedWindow kept = *stopped[0].kept;
  ASSERT_EQ(kept.middle.done.size(), 3U);
  for (StoredTensor& tensor : kept.tensors)
    tensor.copy_to = [of_three = tensor.copy_to](const at::Tensor& target) {
      of_three(target);
      target.floor_divide_(3);
    };
  const Came wrong = take_alone({.started = kept});
  EXPECT_GT(relative_error(wrong.gradient, whole.gradient), 1e-3);
}

TEST(ClosedEarlyWindow, GoesOnInMicroBatchesOfAnotherSizeWithinRounding) {
  const Came whole = take_alone({.accumulation = Accumulation::fp32});
  const std::vector<Came> stopped = take(
      {.parts = kThree, .wishes = {1, 1, 1}, .stops = true, .accumulation = Accumulation::fp32});
  for (const std::int64_t micro_batch : {1, 3}) {
    const Course rest{.parts = {{0, 6}, {6, 12}},
                      .accumulation = Accumulation::fp32,
                      .started = stopped[0].kept,
                      .micro_batch = micro_batch};
    for (const Came& came : take(rest)) {
      EXPECT_EQ(came.run.weight, whole.run.weight);
      EXPECT_LT(relative_error(came.gradient, whole.gradient), 1e-14);
    }
  }
}

/// A wish that is noticed after its window has ended does not apply to a later one.
TEST(ClosedEarlyWindow, IsNotClosedForAWishThatCameTooLate) {
  testing::run_thread_ranks(2, [](std::size_t rank, const auto& group) {
    const Ranks ranks(group);
    SharedMiddles middles(ranks, {2, {.micro_batch = 1}});
    EXPECT_FALSE(middles.close_early(false));
    ranks.add_up({1}, "the turns of the test");
    if (rank == 1) {
      EXPECT_TRUE(middles.close_early(true));
    }
    while (!middles.close_early(false)) std::this_thread::yield();
    middles.closed({{.weight = 1}, {.weight = 1}});
    ranks.add_up({1}, "the turns of the test");
    EXPECT_FALSE(middles.close_early(false));
    ranks.add_up({1}, "the turns of the test");  // before another rank wishes again
    EXPECT_TRUE(middles.close_early(true)) << "the next one is another wish";
    ranks.add_up({1}, "the turns of the test");
  });
}

}  // namespace
}  // namespace accrue::train
