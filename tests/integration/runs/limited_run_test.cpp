// Runs that the machine asks to slow down, to pause, to write a checkpoint, or to stop.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "accrue/core/clock.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "support/run_program.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using accrue::testing::wait_until;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Recorder;

/// Does something once, after so many micro-batches, to simulate changes on a machine.
class AfterMicroBatches : public Observer {
 public:
  AfterMicroBatches(int count, std::function<void()> action)
      : left_(count), action_(std::move(action)) {}
  void on_micro_batch(std::int64_t, std::int64_t) override {
    if (--left_ == 0) action_();
  }

 private:
  int left_;
  std::function<void()> action_;
};

/// Does something when a limit is reported with these words.
class AfterLimit : public Observer {
 public:
  AfterLimit(std::string words, std::function<void()> action)
      : words_(std::move(words)), action_(std::move(action)) {}
  void on_event(const Event& event) override {
    if (event.name == "limits" && event.reason.find(words_) != std::string::npos) action_();
  }

 private:
  std::string words_;
  std::function<void()> action_;
};

class LimitedRun : public testing::TinyRun {
 protected:
  /// Seven samples in four micro-batches per step; the first limit's `temp` is below its bound.
  Config limited(LimitAction action, const std::string& out = "run") const {
    Config c = config(out);
    c.run.limits = {{.file = path("temp"),
                     .above = 85,
                     .action = action,
                     .every = Duration{0.1, Duration::Unit::seconds}}};
    write("temp", 40);
    return c;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, double number) const {
    write_file_atomically(folder_ / name, std::to_string(number));
  }

  struct Ran {
    RunResult result;
    std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
    double seconds = 0;

    std::vector<std::string> told(const std::string& name) const {
      std::vector<std::string> reasons;
      for (const Event& event : recorder->events)
        if (event.name == name) reasons.push_back(event.reason);
      return reasons;
    }
  };
  static Ran train(const Config& c, const std::vector<std::shared_ptr<Observer>>& others = {},
                   const RunOptions& options = {}) {
    Ran ran;
    Trainer trainer(c);
    trainer.add_observer(ran.recorder);
    for (const std::shared_ptr<Observer>& other : others) trainer.add_observer(other);
    const Stopwatch watch;
    ran.result = trainer.run(options);
    ran.seconds = watch.seconds();
    return ran;
  }
  /// The limit's number crosses its bound after the tenth micro-batch, the second of step 3. The
  /// limit is not read before a tenth of a second has passed, so the observer waits for that.
  std::shared_ptr<Observer> hot_in_step_3() const {
    return std::make_shared<AfterMicroBatches>(10, [this] {
      write("temp", 90);
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
    });
  }
  /// Creates the file "is_paused" as soon as the run reports the pause.
  std::shared_ptr<Observer> tells_of_pause() const {
    return std::make_shared<AfterLimit>("paused", [this] { write("is_paused", 1); });
  }
  void expect_bits_of_an_undisturbed_run(const Config& c) const {
    const Config straight = config("straight");
    train(straight);
    expect_same_bits(parameters_of(c), parameters_of(straight));
  }
};

TEST_F(LimitedRun, RestsAsLongAsItWorksWhereItIsToBeSlow) {
  Config c = limited(LimitAction::slow);
  write("temp", 90);
  c.run.limits[0].speed = 0.2;
  const Ran ran = train(c);
  ASSERT_EQ(ran.told("limits").size(), 1U);
  EXPECT_THAT(ran.told("limits")[0],
              HasSubstr("temp is 90, above 85: works 20% of the time until it is 80.75 or less"));
  // Each of a step's four micro-batches except the last is followed by a rest four times as long:
  // the others take at least as long as the middle two.
  for (const StepReport& step : ran.recorder->steps)
    EXPECT_GE(step.seconds - step.accumulation_seconds.value(),
              0.99 * 4 * 2 * step.micro_batch_seconds.value().median);
  expect_bits_of_an_undisturbed_run(c);
}

TEST_F(LimitedRun, PausesInTheMiddleOfAWindowUntilItIsOver) {
  const Config c = limited(LimitAction::pause);
  std::thread cooling([this] {
    wait_until([&] { return fs::exists(path("is_paused")); });
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    write("temp", 40);
  });
  const Ran ran = train(c, {hot_in_step_3(), tells_of_pause()});
  cooling.join();
  const std::vector<std::string> told = ran.told("limits");
  ASSERT_EQ(told.size(), 2U);
  EXPECT_THAT(told[0], HasSubstr("temp is 90, above 85: paused until it is 80.75 or less"));
  EXPECT_THAT(told[1], HasSubstr("temp is 40: this limit is over after "));
  const std::vector<StepReport>& steps = ran.recorder->steps;
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_GT(steps[2].seconds, 0.5) << "the pause was in the third step";
  EXPECT_LT(steps[2].accumulation_seconds.value_or(0), steps[2].seconds - 0.5);
  expect_bits_of_an_undisturbed_run(c);
}

TEST_F(LimitedRun, ThatIsPausedWritesACheckpointAtANoticeAndEndsByASignal) {
  Config c = limited(LimitAction::pause);
  c.run.limits.push_back({.file = path("notice"),
                          .action = LimitAction::checkpoint,
                          .every = Duration{0.1, Duration::Unit::seconds}});
  std::thread outside([&] {
    // The notice is answered while the run is paused; then the run is ended.
    const fs::path kept = RunDirectory(c.run.out).checkpoint(2) / "window.safetensors";
    wait_until([&] { return fs::exists(path("is_paused")); });
    write("notice", 0);
    wait_until([&] { return fs::exists(kept); });
    std::raise(SIGTERM);
  });
  const Ran ran = train(c, {hot_in_step_3(), tells_of_pause()});
  outside.join();
  EXPECT_TRUE(ran.result.interrupted);
  EXPECT_EQ(ran.result.step, 2);
  EXPECT_EQ(ran.recorder->steps.size(), 2U) << "a pause ends by a signal without another step";
  EXPECT_THAT(ran.told("checkpoint").front(), HasSubstr("2 of 4 micro-batches of step 3 are kept"));
  write("temp", 40);
  train(c, {}, {.resume = true});
  expect_bits_of_an_undisturbed_run(c);
}

TEST_F(LimitedRun, KeepsItsWindowWhereACheckpointIsAskedForAndGoesOn) {
  const Config c = limited(LimitAction::checkpoint);
  const Ran ran = train(c, {hot_in_step_3()});
  EXPECT_FALSE(ran.result.interrupted);
  ASSERT_EQ(ran.told("limits").size(), 1U);
  EXPECT_THAT(ran.told("limits")[0], HasSubstr("above 85: a checkpoint is asked for"));
  ASSERT_FALSE(ran.told("checkpoint").empty());
  EXPECT_THAT(ran.told("checkpoint")[0], HasSubstr("2 of 4 micro-batches of step 3 are kept"));
  expect_bits_of_an_undisturbed_run(c);
}

TEST_F(LimitedRun, StopsAsAtASignalAndIsResumed) {
  const Config c = limited(LimitAction::stop);
  const Ran first = train(c, {hot_in_step_3()});
  EXPECT_TRUE(first.result.interrupted);
  EXPECT_EQ(first.result.step, 2);
  EXPECT_THAT(first.told("limits").front(), HasSubstr("above 85: asked to stop"));
  EXPECT_THAT(first.told("checkpoint").front(), HasSubstr("2 of 4 micro-batches of step 3"));
  write("temp", 40);
  EXPECT_FALSE(train(c, {}, {.resume = true}).result.interrupted);
  expect_bits_of_an_undisturbed_run(c);
}

TEST_F(LimitedRun, ThatPausesBeforeItsFirstStepWaitsForIt) {
  Config c = limited(LimitAction::pause);
  c.run.checkpoint_every = {3, Duration::Unit::steps};
  write("temp", 90);
  const auto cooling = std::make_shared<AfterLimit>("paused", [this] { write("temp", 40); });
  const Ran ran = train(c, {cooling});
  EXPECT_GT(ran.seconds, 0.5) << "a limit that is met stays so for five readings";
  EXPECT_THAT(RunDirectory(c.run.out).checkpoint_steps(), ::testing::ElementsAre(3, 6))
      << "there was nothing to keep before";
  expect_bits_of_an_undisturbed_run(c);
}

/// The file that it reads becomes a pipe, to which nobody writes.
TEST_F(LimitedRun, GoesOnWhereAFileCannotBeReadAnyMore) {
  const Config c = limited(LimitAction::pause);
  const auto breaking = std::make_shared<AfterLimit>("paused", [this] {
    fs::remove(path("temp"));
    ::mkfifo(path("temp").c_str(), 0600);
  });
  const Ran ran = train(c, {hot_in_step_3(), breaking});
  EXPECT_FALSE(ran.result.interrupted);
  EXPECT_THAT(ran.told("limits").back(), HasSubstr("cannot be read (it is no regular file)"));
  expect_bits_of_an_undisturbed_run(c);
}

TEST_F(LimitedRun, WithAFileThatIsNotThereIsRefusedBeforeAnythingIsWritten) {
  Config c = limited(LimitAction::slow);
  c.run.limits[0].file = path("nothing");
  EXPECT_THAT(usage_message([&] { train(c); }),
              AllOf(HasSubstr("run.limits"), HasSubstr("nothing above 85: slow")));
  EXPECT_FALSE(fs::exists(c.run.out));
}

}  // namespace
}  // namespace accrue::train
