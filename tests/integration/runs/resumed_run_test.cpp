#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/train/trainer.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "support/killed_run.h"
#include "support/tolerance.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using testing::AfterStep;
using testing::Recorder;
using testing::SignalAfter;
using testing::TinyRun;
using ResumeTest = TinyRun;

TEST_F(ResumeTest, ContinuesToTheBitAfterAnySignalAtAnyMicroBatch) {
  Config straight = config("straight");
  straight.model.dropout = 0.1;
  Trainer(straight).run();
  for (const auto& [micro_batches, signal] : {std::pair{1, SIGINT}, {10, SIGTERM}, {12, SIGINT}}) {
    Config broken = straight;
    broken.run.out = (folder_ / ("broken" + std::to_string(micro_batches))).string();
    Trainer first(broken);
    first.add_observer(std::make_shared<SignalAfter>(micro_batches, signal));
    const RunResult result = first.run();
    EXPECT_TRUE(result.interrupted);
    // A window has four micro-batches; a signal during its last one still lets the step be taken.
    EXPECT_EQ(result.step, micro_batches / 4);
    const RunResult end = Trainer(broken).run({.resume = true});
    EXPECT_EQ(end.step, 6);
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

/// The units of fixed-point sums follow the gradients, so rounding depends on earlier windows.
TEST_F(ResumeTest, ContinuesWithTheUnitsOfFixedPointSums) {
  Config straight = config("straight");
  straight.precision.accumulate = accum::Accumulation::fixed;
  Trainer(straight).run();
  Config broken = straight;
  broken.run.out = (folder_ / "broken").string();
  Trainer first(broken);
  // Between two windows: a window that is continued in its middle has its own units.
  first.add_observer(std::make_shared<SignalAfter>(12, SIGINT));
  first.run();
  Trainer(broken).run({.resume = true});
  expect_same_bits(parameters_of(broken), parameters_of(straight));
  const auto units = [](const Config& c) {
    const std::string text = read_file(RunDirectory(c.run.out).checkpoint(6) / "state.json");
    return nlohmann::json::parse(text).at("units").get<std::vector<int>>();
  };
  EXPECT_EQ(units(broken), units(straight));
  EXPECT_THAT(units(straight), ::testing::Contains(::testing::Ne(-40))) << "they have moved";
}

TEST_F(ResumeTest, CountsTokensAndSamplesOn) {
  Config c = config();
  Trainer first(c);
  const auto before = std::make_shared<Recorder>(), after = std::make_shared<Recorder>();
  first.add_observer(before);
  first.add_observer(std::make_shared<SignalAfter>(10, SIGINT));
  first.run();
  Trainer second(c);
  second.add_observer(after);
  second.run({.resume = true});
  ASSERT_FALSE(before->steps.empty());
  ASSERT_FALSE(after->steps.empty());
  const StepReport &one = before->steps.front(), &last = after->steps.back();
  EXPECT_EQ(last.step, 6);
  EXPECT_EQ(last.tokens, 6 * one.tokens.value());
  EXPECT_EQ(last.samples, 6 * one.samples);
}

TEST_F(ResumeTest, DoesNotMeasureTheMicroBatchAgain) {
  Config c = config();
  c.batch.micro.reset();
  Trainer first(c);
  first.add_observer(std::make_shared<SignalAfter>(3, SIGINT));
  first.run();
  Trainer second(c);
  second.run({.resume = true});
  EXPECT_EQ(second.plan().micro_reason, "as the checkpoint says");
}

TEST_F(ResumeTest, APreviewSaysFromWhereToWhereItGoesOn) {
  Config c = config();
  Trainer first(c);
  first.add_observer(std::make_shared<SignalAfter>(10, SIGINT));
  const std::int64_t done = first.run().step;
  const Preview same = Trainer(c).preview({.resume = true});
  EXPECT_EQ(same.step, done);
  EXPECT_EQ(same.plan.total_steps, 6);
  EXPECT_EQ(same.plan.micro_reason, "as the checkpoint says");
  EXPECT_EQ(same.length + same.done, "");
  c.run.steps = 9;
  const Preview longer = Trainer(c).preview({.resume = true});
  EXPECT_EQ(longer.plan.total_steps, 9);
  EXPECT_EQ(longer.length.find("run.steps 6 -> 9: the learning rate of step "), 0U)
      << longer.length;
  EXPECT_EQ(*RunDirectory(c.run.out).config().run.steps, 6) << "nothing was written";
  Config other = c;
  other.optim.lr = 1;
  EXPECT_NE(usage_message([&] { Trainer(other).preview({.resume = true}); }).find("optim.lr"),
            std::string::npos);
}

TEST_F(ResumeTest, OfAFinishedRunSaysHowToGoOn) {
  const Config c = config();
  Trainer(c).run();
  const std::string how = "done at step 6; to go on longer: --resume --run.steps=12";
  EXPECT_EQ(Trainer(c).preview({.resume = true}).done, how);
  Trainer again(c);
  const auto recorder = std::make_shared<Recorder>();
  again.add_observer(recorder);
  EXPECT_EQ(again.run({.resume = true}).step, 6);
  EXPECT_TRUE(std::ranges::any_of(recorder->events, [&](const Event& event) {
    return event.name == "resume" && event.reason.ends_with(": " + how);
  }));
}

TEST_F(ResumeTest, UsesThePreviousCheckpointWhereTheNewestWasCutShort) {
  Config c = config();
  c.run.checkpoint_every = {2, Duration::Unit::steps};
  c.run.keep_best = false;
  Trainer(c).run();
  const NamedParameters expected = parameters_of(c);
  const RunDirectory run(c.run.out);
  ASSERT_EQ(run.checkpoint_steps(), (std::vector<std::int64_t>{4, 6}));
  const fs::path file = run.checkpoint(6) / "optimizer.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  trainer.run({.resume = true});
  EXPECT_TRUE(recorder->has_event("checkpoint_skipped"));
  EXPECT_EQ(recorder->steps.size(), 2u);
  expect_same_bits(parameters_of(c), expected);
}

TEST_F(ResumeTest, StartsAgainWhereThereIsNoCheckpoint) {
  const Config c = config();
  Trainer(c).run();
  const NamedParameters expected = parameters_of(c);
  accrue::testing::leave_as_killed_at_start(c.run.out);
  EXPECT_EQ(Trainer(c).run({.resume = true}).step, 6);
  expect_same_bits(parameters_of(c), expected);
}

/// Starting again would remove the steps from metrics.jsonl.
TEST_F(ResumeTest, RefusesARunThatHasLostItsCheckpoints) {
  const Config c = config();
  Trainer(c).run();
  const RunDirectory run(c.run.out);
  const std::string metrics = read_file(run.metrics_file()), record = read_file(run.run_file());
  fs::remove_all(run.checkpoints());
  const auto expect_refusal = [&](const RunOptions& options) {
    EXPECT_THAT(
        usage_message([&] { Trainer(c).run(options); }),
        ::testing::AllOf(::testing::HasSubstr("run.json records that the run reached step 6"),
                         ::testing::HasSubstr("received none in " + run.checkpoints().string()),
                         ::testing::HasSubstr("another run.out, or removing " + c.run.out)));
    EXPECT_EQ(read_file(run.metrics_file()), metrics);
    EXPECT_EQ(read_file(run.run_file()), record);
  };
  expect_refusal({.resume = true});
  expect_refusal({.resume = true, .may_begin = true});
  fs::create_directories(run.checkpoints());
  expect_refusal({.resume = true});
  EXPECT_THAT(usage_message([&] { Trainer(c).preview({.resume = true}); }),
              ::testing::HasSubstr("reached step 6"));
}

/// A run that was killed has no end in run.json, but it logged that it had waited for a checkpoint.
TEST_F(ResumeTest, RefusesAKilledRunWhoseCheckpointsWereRemoved) {
  Config c = config();
  c.run.checkpoint_every = {2, Duration::Unit::steps};
  Trainer(c).run();
  const RunDirectory run(c.run.out);
  accrue::testing::leave_as_killed(c.run.out);
  fs::remove_all(run.checkpoints());
  const std::string metrics = read_file(run.metrics_file());
  for (const bool may_begin : {false, true})
    EXPECT_THAT(
        usage_message([&] { Trainer(c).run({.resume = true, .may_begin = may_begin}); }),
        ::testing::AllOf(
            ::testing::HasSubstr("metrics.jsonl records that one was written before step 3"),
            ::testing::HasSubstr("received none in " + run.checkpoints().string()),
            ::testing::HasSubstr("another run.out, or removing " + c.run.out)));
  EXPECT_EQ(read_file(run.metrics_file()), metrics);
}

TEST_F(ResumeTest, DoesNotEvaluateAgainWhereItStands) {
  const Config c = config();
  const RunResult ended = Trainer(c).run();
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  const RunResult result = trainer.run({.resume = true});
  EXPECT_TRUE(recorder->evaluations.empty());
  EXPECT_TRUE(recorder->steps.empty());
  EXPECT_EQ(result.eval_loss, ended.eval_loss);
}

/// For any point of the signal, the reports are those of an uninterrupted run.
TEST_F(ResumeTest, MakesTheEvaluationThatItWasStoppedIn) {
  Config c = config();
  c.run.eval_every = Duration{1, Duration::Unit::steps};
  Trainer first(c);
  const auto before = std::make_shared<Recorder>(), after = std::make_shared<Recorder>();
  first.add_observer(before);
  first.add_observer(std::make_shared<AfterStep>(3, [] { std::raise(SIGINT); }));
  EXPECT_EQ(first.run().step, 3);
  EXPECT_EQ(before->evaluations.back().step, 2) << "the control";
  Trainer second(c);
  second.add_observer(after);
  second.run({.resume = true});
  ASSERT_EQ(after->evaluations.size(), 4);
  for (std::size_t i = 0; i < after->evaluations.size(); ++i)
    EXPECT_EQ(after->evaluations[i].step, 3 + static_cast<std::int64_t>(i));
}

TEST_F(ResumeTest, RefusesAnotherModelAndNamesItsKey) {
  Config c = config();
  Trainer(c).run();
  c.model.width = 64;
  c.run.keep = 5;
  const std::string message = usage_message([&] { Trainer(c).run({.resume = true}); });
  EXPECT_NE(message.find("model.width = 64 (was 32)"), std::string::npos) << message;
  EXPECT_EQ(message.find("run.keep ="), std::string::npos) << message;
}

TEST_F(ResumeTest, RefusesOtherData) {
  const Config c = config();
  Trainer(c).run();
  std::ofstream(folder_ / "text.txt", std::ios::app) << "one more line that was not there before\n";
  EXPECT_NE(usage_message([&] { Trainer(c).run({.resume = true}); }).find("other data"),
            std::string::npos);
}

TEST_F(ResumeTest, KeepsTheShapeOfTheModelItStartedFrom) {
  const std::string base = (folder_ / "base").string();
  models::save_gpt2_folder(
      base, models::Gpt2({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocab = 256}));
  Config c = config();
  c.model = {};
  c.model.from = base;
  c.batch.tokens = 7 * 8;
  Trainer first(c);
  first.add_observer(std::make_shared<SignalAfter>(6, SIGINT));
  first.run();
  EXPECT_EQ(Trainer(c).run({.resume = true}).step, 6);
  fs::remove_all(base);
  EXPECT_EQ(parameters_of(c).front().tensor.size(1), 16)
      << "a run does not need the folder it started from";
}

TEST_F(ResumeTest, FromAnEarlierStepGivesUpTheLaterCheckpoints) {
  Config c = config();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.run.keep = 4;
  c.run.keep_best = false;
  Trainer(c).run();
  const NamedParameters expected = parameters_of(c);
  Trainer again(c);
  again.add_observer(std::make_shared<SignalAfter>(5, SIGINT));
  const RunResult result = again.run({.resume = true, .checkpoint = "3"});
  EXPECT_EQ(result.step, 4);
  EXPECT_TRUE(fs::exists(result.checkpoint));
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(Trainer(c).run({.resume = true}).step, 6);
  expect_same_bits(parameters_of(c), expected);
}

/// Its later checkpoints would be replaced by those of the other run.
TEST_F(ResumeTest, RefusesACheckpointOfAnotherRun) {
  Config c = config();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.run.keep = 4;
  Trainer(c).run();
  const auto steps = RunDirectory(c.run.out).checkpoint_steps();
  Config other = c;
  other.run.out += "_other";
  other.run.seed = c.run.seed + 1;
  Trainer(other).run();
  const fs::path theirs = RunDirectory(other.run.out).checkpoint(steps.front());
  for (const std::string& asked : {theirs.string(), theirs.string() + "/"}) {
    const std::string message =
        usage_message([&] { Trainer(c).run({.resume = true, .checkpoint = asked}); });
    EXPECT_NE(message.find("one of the run in " + other.run.out), std::string::npos) << message;
  }
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(), steps) << "nothing was given up";

  // Its own is accepted by its path, as is a copy of the whole run folder.
  const fs::path own = RunDirectory(c.run.out).checkpoint(steps.front());
  const fs::path copy = c.run.out + "_copy";
  fs::copy(c.run.out, copy, fs::copy_options::recursive);
  EXPECT_EQ(Trainer(c).run({.resume = true, .checkpoint = own.string()}).step, 6);
  EXPECT_EQ(Trainer(c)
                .run({.resume = true,
                      .checkpoint = RunDirectory(copy).checkpoint(steps.front()).string()})
                .step,
            6);
}

TEST_F(ResumeTest, SaysWhatIsNoCheckpoint) {
  const Config c = config();
  Trainer(c).run();
  const auto message = [&](const std::string& asked) {
    return usage_message([&] { Trainer(c).run({.resume = true, .checkpoint = asked}); });
  };
  EXPECT_NE(message(c.run.out).find("received a run folder"), std::string::npos);
  EXPECT_NE(message("step-00000003").find("try --resume 3"), std::string::npos);
  EXPECT_NE(message("nowhere").find("received a folder that does not exist"), std::string::npos);
}

TEST_F(ResumeTest, RefusesADirectoryWithoutARun) {
  EXPECT_NE(usage_message([&] { Trainer(config()).run({.resume = true}); }).find("none"),
            std::string::npos);
}

}  // namespace
}  // namespace accrue::train
