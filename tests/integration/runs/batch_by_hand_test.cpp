// Runs whose batch is changed by hand as they are resumed.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "accrue/train/run_record.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using testing::AfterStep;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Recorder;
using testing::SignalAfter;

class BatchByHand : public testing::TinyRun {
 protected:
  static constexpr std::int64_t kContext = 16;

  /// Six steps of 7 samples each, in micro-batches of 2.
  Config begun(const std::string& out) const {
    Config c = config(out);
    c.model.dropout = 0.1;
    c.precision.accumulate = accum::Accumulation::fixed;
    return c;
  }
  static Config with_samples(Config c, std::int64_t samples) {
    c.batch.tokens = samples * kContext;
    return c;
  }

  static std::shared_ptr<Recorder> run(const Config& c, const RunOptions& options) {
    const auto recorder = std::make_shared<Recorder>();
    Trainer trainer(c);
    trainer.add_observer(recorder);
    trainer.run(options);
    return recorder;
  }
  static std::shared_ptr<Recorder> change(const Config& c) {
    return run(c, {.resume = true, .may_change_batch = true});
  }
  static void stop_after(std::int64_t step, const Config& c, const RunOptions& options = {}) {
    Trainer trainer(c);
    trainer.add_observer(std::make_shared<AfterStep>(step, [] { std::raise(SIGINT); }));
    EXPECT_TRUE(trainer.run(options).interrupted);
  }
  /// Of 7 samples, and from step 4 on of 12.
  Config changed(const std::string& out) const {
    const Config c = begun(out);
    stop_after(3, c);
    change(with_samples(c, 12));
    return c;
  }

  static std::vector<std::int64_t> batches(const Recorder& recorder) {
    std::vector<std::int64_t> samples;
    for (const StepReport& step : recorder.steps) samples.push_back(step.batch_samples.value_or(0));
    return samples;
  }
  static std::vector<double> rates(const Recorder& recorder) {
    std::vector<double> values;
    for (const StepReport& step : recorder.steps) values.push_back(step.lr.value_or(-1));
    return values;
  }
  static std::string told(const Recorder& recorder, const std::string& name) {
    std::string reasons;
    for (const Event& event : recorder.events)
      if (event.name == name) reasons += event.reason + "\n";
    return reasons;
  }
  static nlohmann::json run_json(const Config& c) {
    return nlohmann::json::parse(read_file(RunDirectory(c.run.out).run_file()));
  }
};

TEST_F(BatchByHand, HasTheSameBitsHoweverOftenItIsInterrupted) {
  const Config straight = begun("straight");
  stop_after(3, straight);
  const auto rest = change(with_samples(straight, 12));
  EXPECT_THAT(batches(*rest), ElementsAre(12, 12, 12));
  EXPECT_EQ(rest->steps.back().samples, 3 * 7 + 3 * 12);
  EXPECT_THAT(told(*rest, "batch"),
              HasSubstr("from step 4 on 192 tokens in place of 112 tokens, changed by hand: "
                        "6 micro-batches of 2 samples"));

  const Config broken = begun("broken");
  stop_after(3, broken);
  stop_after(4, with_samples(broken, 12), {.resume = true, .may_change_batch = true});
  const auto last = run(broken, {.resume = true});
  EXPECT_THAT(batches(*last), ElementsAre(12, 12));
  EXPECT_THAT(told(*last, "batch"),
              HasSubstr("began with 112 tokens; changed by hand: 192 from step 4 on"));
  expect_same_bits(parameters_of(broken), parameters_of(straight));

  const Config unchanged = begun("unchanged");
  const auto control = run(unchanged, {});
  EXPECT_FALSE(at::equal(parameters_of(unchanged)[0].tensor, parameters_of(straight)[0].tensor));
  const std::vector<double> all = rates(*control);
  EXPECT_EQ(rates(*rest), std::vector<double>(all.begin() + 3, all.end()))
      << "the schedule of a run in steps counts steps";
}

TEST_F(BatchByHand, IsInTheLineWithWhichARunStarts) {
  const Config c = begun("run");
  const auto started = [](const Recorder& recorder) {
    return recorder.starts.empty() ? RunStart() : recorder.starts.front();
  };
  const auto resumed_and_stopped = [](std::int64_t step, const Config& config) {
    const auto recorder = std::make_shared<Recorder>();
    Trainer trainer(config);
    trainer.add_observer(recorder);
    trainer.add_observer(std::make_shared<AfterStep>(step, [] { std::raise(SIGINT); }));
    trainer.run({.resume = true, .may_change_batch = true});
    return recorder;
  };
  stop_after(2, c);
  const auto unchanged = resumed_and_stopped(3, c);
  EXPECT_EQ(started(*unchanged).batch_in_short, "7 samples");
  EXPECT_THAT(started(*unchanged).summary, HasSubstr("7 samples, 112 tokens in 4"));
  const auto with_new = resumed_and_stopped(4, with_samples(c, 12));
  EXPECT_EQ(started(*with_new).batch_in_short, "2 x 6 = 12 samples");
  EXPECT_EQ(started(*with_new).batch, "2 samples x 6 accumulation steps = 12 samples, 192 tokens");
  EXPECT_THAT(started(*with_new).summary, HasSubstr("= 12 samples, 192 tokens"));
  EXPECT_EQ(started(*run(c, {.resume = true})).batch_in_short, "2 x 6 = 12 samples");
}

TEST_F(BatchByHand, IsInRunJsonBeforeACheckpointHasIt) {
  const Config straight = changed("straight");
  EXPECT_EQ(run_json(straight)["batch_changes"].dump(), R"([{"size":192,"window":3}])");
  EXPECT_EQ(RunDirectory(straight.run.out).config().batch.tokens, 7 * kContext);

  const Config again = begun("again");
  stop_after(3, again);
  stop_after(4, with_samples(again, 12), {.resume = true, .may_change_batch = true});
  const auto rest = run(again, {.resume = true, .checkpoint = "3"});
  EXPECT_THAT(batches(*rest), ElementsAre(12, 12, 12));
  expect_same_bits(parameters_of(again), parameters_of(straight));
}

TEST_F(BatchByHand, IsAgainTheFormerOneIfThatIsStated) {
  const Config c = begun("run");
  stop_after(2, c);
  stop_after(3, with_samples(c, 12), {.resume = true, .may_change_batch = true});
  const auto rest = change(c);
  EXPECT_THAT(batches(*rest), ElementsAre(7, 7, 7));
  EXPECT_EQ(run_json(c)["batch_changes"].size(), 2U);

  const Config given_up = begun("given_up");
  stop_after(3, given_up);
  stop_after(4, with_samples(given_up, 12), {.resume = true, .may_change_batch = true});
  run(given_up, {.resume = true, .checkpoint = "3", .may_change_batch = true});
  EXPECT_FALSE(run_json(given_up).contains("batch_changes"));
  const Config unchanged = begun("unchanged");
  run(unchanged, {});
  expect_same_bits(parameters_of(given_up), parameters_of(unchanged));
}

/// Four micro-batches a step: the signal comes after two of the fourth step.
TEST_F(BatchByHand, LeavesAWindowThatHasBegunAsItIs) {
  const Config c = begun("run");
  Trainer first(c);
  first.add_observer(std::make_shared<SignalAfter>(14, SIGINT));
  ASSERT_TRUE(first.run().interrupted);
  EXPECT_THAT(batches(*change(with_samples(c, 12))), ElementsAre(7, 12, 12));
}

TEST_F(BatchByHand, IsRepeatedToTheBit) {
  const Config first = changed("first");
  const auto record = read_run_record(RunDirectory(first.run.out));
  const auto repeat = [&](const std::string& out) {
    return config_to_repeat(*record, {"run.out=" + (folder_ / out).string()});
  };
  const Config second = repeat("second");
  const auto recorder = run(second, {.repeats = record});
  EXPECT_THAT(batches(*recorder), ElementsAre(7, 7, 7, 12, 12, 12));
  EXPECT_THAT(told(*recorder, "repeat"),
              AllOf(HasSubstr("the same bits are to be expected"),
                    HasSubstr("after step 3: batch.tokens = 192 (was 112)")));
  expect_same_bits(parameters_of(second), parameters_of(first));

  const Config third = repeat("third");
  stop_after(2, third, {.repeats = record});
  EXPECT_THAT(batches(*run(third, {.resume = true})), ElementsAre(7, 12, 12, 12));
  expect_same_bits(parameters_of(third), parameters_of(first));

  const Config other = with_samples(repeat("other"), 9);
  EXPECT_THAT(batches(*run(other, {.repeats = record})), ElementsAre(9, 9, 9, 9, 9, 9));
}

/// 42 samples: 3 x 7, and 21 more in two steps of at most 14.
TEST_F(BatchByHand, OfARunInTokensTakesFewerSteps) {
  Config c = begun("run");
  c.run.steps.reset();
  c.run.tokens = 42 * kContext;
  stop_after(3, c);
  EXPECT_THAT(batches(*change(with_samples(c, 14))), ElementsAre(14, 14));

  const auto record = read_run_record(RunDirectory(c.run.out));
  const Config again = config_to_repeat(*record, {"run.out=" + (folder_ / "again").string()});
  EXPECT_EQ(run(again, {.repeats = record})->steps.size(), 5U);
  expect_same_bits(parameters_of(again), parameters_of(c));
}

TEST_F(BatchByHand, TakesTheLearningRateAlongIfThatIsScaledToTheBatch) {
  Config c = begun("run");
  c.optim.schedule.kind = optim::ScheduleKind::constant;
  c.optim.scale_lr = optim::ScaleRule::linear;
  c.optim.base_batch = 7 * kContext;
  stop_after(3, c);
  const auto rest = change(with_samples(c, 14));
  ASSERT_EQ(rest->steps.size(), 3U);
  for (const StepReport& step : rest->steps) EXPECT_DOUBLE_EQ(*step.lr, 2 * c.optim.lr);
}

TEST_F(BatchByHand, MayBeStatedInTheOtherUnit) {
  const Config in_tokens = changed("in_tokens");
  const Config c = begun("in_samples");
  stop_after(3, c);
  Config stated = c;
  stated.batch.tokens.reset();
  stated.batch.samples = 12;
  change(stated);
  expect_same_bits(parameters_of(c), parameters_of(in_tokens));
}

TEST_F(BatchByHand, IsRefusedWithItsKeyIfTheCommandDoesNotStateIt) {
  const Config c = begun("run");
  stop_after(3, c);
  const std::string text = usage_message([&] { run(with_samples(c, 12), {.resume = true}); });
  EXPECT_THAT(
      text, AllOf(HasSubstr("received batch.tokens = 192 (was 112); "),
                  HasSubstr("--batch.tokens=192 on the command line"), Not(HasSubstr("run.keep"))));
  EXPECT_FALSE(run_json(c).contains("batch_changes"));
}

TEST_F(BatchByHand, IsRefusedOfARunThatChangesItByItself) {
  Config c = begun("run");
  c.batch.tokens.reset();
  c.batch.samples = 4;
  c.batch.schedule_unit = BatchUnit::samples;
  c.batch.schedule = {{.at = {4}, .size = 8}};
  stop_after(3, c);
  c.batch.samples = 6;
  EXPECT_THAT(usage_message([&] { change(c); }),
              HasSubstr("received batch.samples = 6 (was 4); try batch.samples = 4, or a new"));
}

}  // namespace
}  // namespace accrue::train
