// Runs that are made longer, or shorter, when they are resumed.
#include <gmock/gmock.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/atomic_file.h"
#include "support/errors.h"
#include "support/killed_run.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using testing::AfterStep;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Recorder;

class LongerRun : public testing::TinyRun {
 protected:
  /// A schedule that does not depend on the length.
  Config constant(const std::string& out, std::int64_t steps) const {
    Config c = config(out);
    c.run.steps = steps;
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    c.model.dropout = 0.1;
    return c;
  }
  Config cosine(const std::string& out, std::int64_t steps) const {
    Config c = config(out);
    c.run.steps = steps;
    c.optim.schedule.warmup = {2, Duration::Unit::steps};
    c.optim.schedule.min_lr = 1e-4;
    return c;
  }

  /// Resumes the run; returns the reports.
  static std::shared_ptr<Recorder> resume(const Config& c, RunOptions options = {}) {
    options.resume = true;
    const auto recorder = std::make_shared<Recorder>();
    Trainer trainer(c);
    trainer.add_observer(recorder);
    trainer.run(options);
    return recorder;
  }
  static void stop_after(std::int64_t step, const Config& c, bool resume = false) {
    Trainer trainer(c);
    trainer.add_observer(std::make_shared<AfterStep>(step, [] { std::raise(SIGINT); }));
    EXPECT_TRUE(trainer.run({.resume = resume}).interrupted);
  }

  static std::string told_of_length(const Recorder& recorder) {
    for (const Event& event : recorder.events)
      if (event.name == "length") return event.reason;
    return "";
  }
  static std::int64_t kept_steps(const Config& c) {
    return RunDirectory(c.run.out).config().run.steps.value_or(0);
  }
};

/// docs/guide/config.md: half a cosine from the step after the warm-up to one after the last.
double cosine_rate(const Config& c, std::int64_t step, std::int64_t length) {
  const double peak = c.optim.lr, least = c.optim.schedule.min_lr;
  const double warmup = c.optim.schedule.warmup.value;
  const auto at = static_cast<double>(step - 1);
  if (at < warmup) return peak * (at + 1) / warmup;
  const double progress = (at - warmup) / (static_cast<double>(length) - warmup);
  return least + (peak - least) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

TEST_F(LongerRun, HasTheBitsOfOneThatWasLongFromTheStart) {
  const Config straight = constant("straight", 10);
  Trainer(straight).run();
  Config c = constant("run", 4);
  Trainer(c).run();
  c.run.steps = 10;
  const auto recorder = resume(c);
  EXPECT_EQ(recorder->steps.size(), 6u);
  EXPECT_THAT(told_of_length(*recorder), AllOf(HasSubstr("run.steps 4 -> 10"),
                                               HasSubstr("learning rate of step 5 stays 0.01")));
  expect_same_bits(parameters_of(c), parameters_of(straight));

  Config other = constant("other", 11);
  Trainer(other).run();
  EXPECT_FALSE(at::equal(parameters_of(other)[0].tensor, parameters_of(straight)[0].tensor))
      << "one step more would be seen";
}

/// The schedule of versions in which it ended with the last step.
double former_rate(const Config& c, std::int64_t step, std::int64_t length) {
  return cosine_rate(c, step, length - 1);
}

std::filesystem::path last_checkpoint(const Config& c) {
  const RunDirectory run(c.run.out);
  return run.checkpoint(run.checkpoint_steps().back());
}

/// Changes a checkpoint to that of a version without schedules and checksums.
void make_former(const std::filesystem::path& folder) {
  nlohmann::json state = nlohmann::json::parse(read_file(folder / "state.json"));
  EXPECT_EQ(state.at("schedule"), 2);
  state.erase("schedule");
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    state["files"][name] = std::filesystem::file_size(folder / name);
  write_file_atomically(folder / "state.json", state.dump());
  std::filesystem::remove(folder / "manifest.json");
}

TEST_F(LongerRun, OfAFormerVersionKeepsItsSchedule) {
  Config c = cosine("run", 6);
  stop_after(3, c);
  make_former(last_checkpoint(c));
  stop_after(4, c, true);  // the checkpoints written since keep it, too
  const auto recorder = resume(c);
  ASSERT_EQ(recorder->steps.size(), 2U);
  for (const StepReport& report : recorder->steps) {
    EXPECT_NEAR(*report.lr, former_rate(c, report.step, 6), 1e-12) << report.step;
    EXPECT_GT(std::abs(*report.lr - cosine_rate(c, report.step, 6)), 1e-6) << report.step;
  }
  EXPECT_NEAR(*recorder->steps.back().lr, c.optim.schedule.min_lr, 1e-12);
  c.run.steps = 9;
  EXPECT_NEAR(*resume(c)->steps.front().lr, former_rate(c, 7, 9), 1e-12) << "and made longer";
}

void expect_former_rates(const Config& c, const Recorder& recorder) {
  for (const StepReport& report : recorder.steps) {
    EXPECT_NEAR(*report.lr, former_rate(c, report.step, 6), 1e-12) << report.step;
    if (report.step > 3) {  // the warm-up, and the step after it, are the same
      EXPECT_GT(std::abs(*report.lr - cosine_rate(c, report.step, 6)), 1e-6) << report.step;
    }
  }
}

int schedule_in_record(const Config& c) {
  return nlohmann::json::parse(read_file(RunDirectory(c.run.out).run_file())).value("schedule", 0);
}

TEST_F(LongerRun, HasTheScheduleOfTheCheckpointThatIsNamed) {
  const Config c = cosine("run", 6);
  stop_after(3, c);
  const std::filesystem::path kept = folder_ / "step-00000003";
  std::filesystem::copy(last_checkpoint(c), kept, std::filesystem::copy_options::recursive);
  make_former(kept);
  stop_after(4, c, true);  // the newest has the present schedule
  const auto recorder = resume(c, {.checkpoint = kept.string()});
  ASSERT_EQ(recorder->steps.size(), 3U);
  expect_former_rates(c, *recorder);
  EXPECT_EQ(schedule_in_record(c), 1);
  EXPECT_EQ(nlohmann::json::parse(read_file(last_checkpoint(c) / "state.json")).at("schedule"), 1);
}

/// A run that was killed before its first checkpoint.
TEST_F(LongerRun, OfAFormerVersionKeepsItsScheduleWithoutACheckpoint) {
  const Config c = cosine("run", 6);
  const auto stop_at_start = [&](bool resumes) {
    stop_after(1, c, resumes);
    accrue::testing::leave_as_killed_at_start(c.run.out);
  };
  stop_at_start(false);
  const std::filesystem::path file = RunDirectory(c.run.out).run_file();
  nlohmann::json record = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(record.at("schedule"), 2);
  record.erase("schedule");
  record.erase("checksum");
  write_file_atomically(file, record.dump());
  stop_at_start(true);
  EXPECT_EQ(schedule_in_record(c), 1);
  const auto recorder = resume(c);
  ASSERT_EQ(recorder->steps.size(), 6U);
  expect_former_rates(c, *recorder);
}

TEST_F(LongerRun, OfThisVersionKeepsItsScheduleWithoutACheckpoint) {
  const Config c = cosine("run", 6);
  stop_after(1, c);
  accrue::testing::leave_as_killed_at_start(c.run.out);
  const auto recorder = resume(c);
  ASSERT_EQ(recorder->steps.size(), 6U);
  for (const StepReport& report : recorder->steps)
    EXPECT_NEAR(*report.lr, cosine_rate(c, report.step, 6), 1e-12) << report.step;
  EXPECT_EQ(schedule_in_record(c), 2);
}

/// There a pattern's rate below the floor was used, and a part of the floor was its own.
TEST_F(LongerRun, OfAFormerVersionKeepsTheRatesOfItsGroups) {
  Config c = cosine("run", 6);
  c.optim.rates = {{.match = "wte", .lr = 2e-4}};
  stop_after(3, c);
  make_former(last_checkpoint(c));
  const auto recorder = resume(c);
  for (const StepReport& report : recorder->steps)
    EXPECT_NEAR(report.lrs.at("decayed:wte"), 0.02 * *report.lr, 1e-15) << report.step;
}

/// A window without weight is no step, with and without rounds of several steps.
TEST_F(LongerRun, CountsNoStepForAWindowWithoutWeight) {
  std::ofstream lines(folder_ / "lines.jsonl");
  for (int i = 0; i < 24; ++i)
    lines << nlohmann::json{{"input_ids", {1, 2, 3}},
                            {"labels", i / 4 % 3 == 1 ? nlohmann::json{-100, -100, -100}
                                                      : nlohmann::json{1, 2, 3}}}
          << "\n";
  lines.close();
  const auto trained = [&](const std::string& out, std::int64_t local_steps) {
    Config c = cosine(out, 6);
    c.model.vocab = 8;
    c.data.train = {(folder_ / "lines.jsonl").string()};
    c.data.val_fraction = 0;
    c.data.order = batch::Order::sequential;
    c.batch = {.samples = 4, .micro = 2};
    c.dist.local_steps = local_steps;
    if (local_steps > 1) c.dist.outer_lr = 1;
    const auto recorder = std::make_shared<Recorder>();
    Trainer trainer(c);
    trainer.add_observer(recorder);
    EXPECT_EQ(trainer.run().step, 4) << out;
    return std::pair(c, recorder);
  };
  const auto [plain, alone] = trained("plain", 1);
  for (const std::int64_t local_steps : {2, 3, 4}) {
    const auto [c, rounds] = trained("rounds" + std::to_string(local_steps), local_steps);
    ASSERT_EQ(rounds->steps.size(), alone->steps.size());
    for (std::size_t i = 0; i < rounds->steps.size(); ++i) {
      EXPECT_EQ(rounds->steps[i].step, alone->steps[i].step);
      EXPECT_EQ(rounds->steps[i].stepped, alone->steps[i].stepped);
      EXPECT_EQ(rounds->steps[i].lr, alone->steps[i].lr) << "windows without weight move no rate";
    }
  }
}

/// The logarithm of a decay of 0 cannot be represented in JSON.
TEST_F(LongerRun, GoesOnWithSecondMomentsThatAreNotKept) {
  const auto rooted = [&](const std::string& out) {
    Config c = constant(out, 6);
    c.optim.beta2 = 0;
    c.batch.schedule_unit = BatchUnit::tokens;
    c.batch.schedule = {{.at = {0}, .size = 7 * 16}, {.at = {2}, .size = 14 * 16}};
    c.adapt.lr_rule = adapt::RateRule::sqrt;
    return c;
  };
  const Config straight = rooted("straight"), broken = rooted("broken");
  Trainer(straight).run();
  stop_after(3, broken);
  EXPECT_EQ(resume(broken)->steps.back().step, 6);
  expect_same_bits(parameters_of(broken), parameters_of(straight));
}

TEST_F(LongerRun, HasTheNewSchedulesRatesFromTheNextStepOn) {
  Config c = cosine("run", 6);
  stop_after(4, c);
  c.run.steps = 12;
  const auto recorder = resume(c);
  ASSERT_EQ(recorder->steps.size(), 8u);
  for (const StepReport& report : recorder->steps) {
    EXPECT_NEAR(*report.lr, cosine_rate(c, report.step, 12), 1e-12) << report.step;
    if (report.step < 12) {
      EXPECT_GT(std::abs(*report.lr - cosine_rate(c, report.step, 13)), 1e-6) << report.step;
    }
  }
  char change[80];
  std::snprintf(change, sizeof change, "step 5 goes from %.4g to %.4g", cosine_rate(c, 5, 6),
                cosine_rate(c, 5, 12));
  EXPECT_THAT(told_of_length(*recorder), HasSubstr(change));
  EXPECT_THAT(read_file(RunDirectory(c.run.out).metrics_file()), HasSubstr(change));
}

TEST_F(LongerRun, TakesDurationsInPercentOfTheNewLength) {
  Config c = cosine("run", 6);
  c.optim.schedule.warmup = {50, Duration::Unit::percent};
  stop_after(4, c);
  c.run.steps = 12;
  const auto recorder = resume(c);
  EXPECT_DOUBLE_EQ(*recorder->steps.front().lr, c.optim.lr * 5 / 6) << "of 6 steps of warm-up";
}

TEST_F(LongerRun, StaysSoWhenItIsResumedWithTheFileThatItBeganWith) {
  const Config began = constant("run", 4);
  Trainer(began).run();
  Config longer = began;
  longer.run.steps = 10;
  stop_after(6, longer, true);
  EXPECT_EQ(kept_steps(began), 10);
  const auto recorder = resume(began);
  EXPECT_EQ(recorder->steps.back().step, 10);
  EXPECT_THAT(told_of_length(*recorder),
              AllOf(HasSubstr("run.steps = 10"), HasSubstr("not run.steps = 4")));
  EXPECT_EQ(told_of_length(*resume(longer)), "") << "nothing was decided";
}

/// A process that is killed leaves any checkpoint with the new length, or with the old one.
TEST_F(LongerRun, GoesOnWhereAProcessWasKilledAfterItsLengthWasWritten) {
  const Config straight = constant("straight", 10);
  Trainer(straight).run();
  const Config c = constant("run", 4);
  Trainer(c).run();
  const RunDirectory run(c.run.out);
  Config longer = run.config();
  longer.run.steps = 10;
  write_file_atomically(run.config_file(), to_toml(longer));
  EXPECT_EQ(resume(c)->steps.back().step, 10);
  expect_same_bits(parameters_of(c), parameters_of(straight));
}

TEST_F(LongerRun, BecomesShorterOnlyWhereThatIsMeant) {
  Config c = cosine("run", 12);
  stop_after(4, c);
  Config shorter = c;
  shorter.run.steps = 7;
  stop_after(5, shorter, true);
  EXPECT_EQ(kept_steps(c), 12);
  const auto recorder = resume(shorter, {.may_shorten = true});
  ASSERT_EQ(recorder->steps.size(), 2u);
  EXPECT_NEAR(*recorder->steps.front().lr, cosine_rate(c, 6, 7), 1e-12);
  EXPECT_NEAR(*recorder->steps.back().lr, cosine_rate(c, 7, 7), 1e-12);
  EXPECT_GT(*recorder->steps.back().lr, c.optim.schedule.min_lr);
  EXPECT_EQ(kept_steps(c), 7);

  shorter.run.steps = 6;
  EXPECT_THAT(usage_message([&] { resume(shorter, {.may_shorten = true}); }),
              AllOf(HasSubstr("run.steps = 6"), HasSubstr("at least the 7 steps")));
  EXPECT_EQ(kept_steps(c), 7) << "nothing was written";
}

TEST_F(LongerRun, MayStateItsLengthInAnotherUnit) {
  Config c = constant("run", 4);
  Trainer(c).run();
  c.run.steps.reset();
  c.run.tokens = 6 * 7 * 16;
  const auto recorder = resume(c);
  EXPECT_EQ(recorder->steps.back().step, 6);
  EXPECT_THAT(told_of_length(*recorder), HasSubstr("run.steps 4 -> run.tokens 672 (4 -> 6 steps)"));
  EXPECT_EQ(RunDirectory(c.run.out).config().run.tokens, 672);
  c.run.tokens = 8 * 7 * 16;
  EXPECT_THAT(told_of_length(*resume(c)), HasSubstr("run.tokens 672 -> 896 (6 -> 8 steps)"));
  c.run.tokens.reset();
  c.run.epochs = 0.5;
  EXPECT_THAT(told_of_length(*resume(c)), HasSubstr("run.tokens 896 -> run.epochs 0.5 (8 -> "));
}

/// Steps are counted from the start, however long the run is.
TEST_F(LongerRun, KeepsTheCadenceOfEvaluationsAndCheckpoints) {
  Config c = constant("run", 5);
  c.run.eval_every = Duration{3, Duration::Unit::steps};
  c.run.checkpoint_every = {3, Duration::Unit::steps};
  c.run.keep = 9;
  Trainer(c).run();
  c.run.steps = 10;
  const auto recorder = resume(c);
  std::vector<std::int64_t> evaluated;
  for (const Evaluation& evaluation : recorder->evaluations) evaluated.push_back(evaluation.step);
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{6, 9, 10}));
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(),
            (std::vector<std::int64_t>{3, 5, 6, 9, 10}));
}

TEST_F(LongerRun, OfWhichNothingElseMayChangeIsStillRefused) {
  Config c = constant("run", 4);
  Trainer(c).run();
  c.run.steps = 8;
  c.optim.lr = 1;
  const std::string text = usage_message([&] { resume(c); });
  EXPECT_THAT(text, AllOf(HasSubstr("received optim.lr = 1.0 (was 0.01); "),
                          HasSubstr("optim.lr = 0.01, or a new run.out")));
  EXPECT_EQ(text.find("run."), text.rfind("run.out")) << "no other key is named: " << text;
  EXPECT_EQ(kept_steps(c), 4);
}

}  // namespace
}  // namespace accrue::train
