// Runs whose checkpoints are copied to a second folder, in this process.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "accrue/train/trainer.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "support/run_program.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using testing::AfterStep;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Recorder;
using testing::SignalAfter;
using testing::TinyRun;

class ReplicatedRun : public TinyRun {
 protected:
  Config replicated(const std::string& out = "run") const {
    Config c = config(out);
    c.model.dropout = 0.1;
    c.run.checkpoint_every = {1, Duration::Unit::steps};
    c.run.replica = (folder_ / "copy").string();
    return c;
  }
  RunDirectory copy() const { return RunDirectory(folder_ / "copy"); }

  /// Trains; returns the messages about the replica.
  std::vector<std::string> train(const Config& c, const RunOptions& options = {},
                                 const std::shared_ptr<Observer>& other = nullptr) const {
    Trainer trainer(c);
    const auto recorder = std::make_shared<Recorder>();
    trainer.add_observer(recorder);
    if (other) trainer.add_observer(other);
    trainer.run(options);
    std::vector<std::string> reasons;
    for (const Event& event : recorder->events)
      if (event.name == "replica") reasons.push_back(event.reason);
    return reasons;
  }
  /// The run of `c` is stopped after two steps.
  std::vector<std::string> stop_after_two_steps(const Config& c) const {
    return train(c, {}, std::make_shared<SignalAfter>(10, SIGTERM));
  }
  static void flip_last_bit(const fs::path& file) {
    std::string content = read_file(file);
    content.back() = static_cast<char>(content.back() ^ 1);
    write_file_atomically(file, content);
  }
};

TEST_F(ReplicatedRun, IsARunFolderOfTheSameEnd) {
  const Config c = replicated();
  EXPECT_THAT(train(c), IsEmpty()) << "nothing failed";
  EXPECT_THAT(copy().checkpoint_steps(), Contains(6));
  EXPECT_LE(copy().checkpoint_steps().size(), 3U) << "pruned to run.keep, and the best";
  const RunDirectory own(c.run.out);
  EXPECT_EQ(read_file(copy().run_file()), read_file(own.run_file())) << "it tells of the end, too";
  EXPECT_EQ(read_file(copy().metrics_file()), read_file(own.metrics_file()));
  Config in_copy = copy().config();
  in_copy.run.out = copy().root().string();
  expect_same_bits(parameters_of(in_copy), parameters_of(c));
}

TEST_F(ReplicatedRun, ALostRunFolderCostsNothing) {
  const Config straight = replicated("straight");
  Config alone = straight;
  alone.run.replica.clear();
  train(alone);

  const Config c = replicated();
  stop_after_two_steps(c);
  ASSERT_THAT(copy().checkpoint_steps(), Contains(2)) << "a stop signal waits for the copy";
  fs::remove_all(c.run.out);
  const Preview preview = Trainer(c).preview({.resume = true});
  EXPECT_EQ(preview.step, 2);
  EXPECT_FALSE(fs::exists(c.run.out)) << "a preview writes nothing";

  EXPECT_THAT(train(c, {.resume = true}),
              ElementsAre(AllOf(HasSubstr("goes on from the replica"), HasSubstr("no checkpoint")),
                          AllOf(HasSubstr("had lost"), HasSubstr("run.json"))));
  expect_same_bits(parameters_of(c), parameters_of(alone));
  EXPECT_THAT(RunDirectory(c.run.out).checkpoint_steps(), Contains(6));
  const auto record = nlohmann::json::parse(read_file(RunDirectory(c.run.out).run_file()));
  EXPECT_EQ(record["resumed"][0]["step"], 2);
  EXPECT_EQ(record["ended"]["step"], 6);

  Config negative = replicated("other");
  negative.run.seed = 7;
  negative.run.replica.clear();
  train(negative);
  EXPECT_FALSE(at::equal(parameters_of(negative)[0].tensor, parameters_of(alone)[0].tensor))
      << "the control";
}

TEST_F(ReplicatedRun, DamagedCheckpointsOfTheRunAreTakenFromTheReplica) {
  const Config c = replicated();
  stop_after_two_steps(c);
  const RunDirectory own(c.run.out);
  flip_last_bit(own.checkpoint(2) / "optimizer.safetensors");
  EXPECT_THAT(train(c, {.resume = true}), ElementsAre(HasSubstr("that is whole")));
  Config alone = replicated("alone");
  alone.run.replica.clear();
  train(alone);
  expect_same_bits(parameters_of(c), parameters_of(alone));
}

TEST_F(ReplicatedRun, TheRunsOwnCheckpointIsTakenWhereItIsAsNew) {
  const Config c = replicated();
  stop_after_two_steps(c);
  EXPECT_THAT(train(c, {.resume = true}), IsEmpty());
}

/// The copy of the abandoned attempt is newer, but the run does not go back to it.
TEST_F(ReplicatedRun, AnAttemptThatWasGivenUpIsNotTakenFromTheReplica) {
  Config c = replicated();
  c.run.keep = 100;
  train(c);
  fs::rename(copy().root(), folder_ / "before");
  train(c, {.resume = true, .checkpoint = "2"}, std::make_shared<SignalAfter>(6, SIGTERM));
  fs::remove_all(copy().root());
  fs::rename(folder_ / "before", copy().root());
  ASSERT_THAT(copy().checkpoint_steps(), Contains(6));
  const RunDirectory own(c.run.out);
  for (const std::int64_t step : own.checkpoint_steps()) ASSERT_LT(step, 6);
  EXPECT_EQ(Trainer(c).preview({.resume = true}).step, own.checkpoint_steps().back());
  EXPECT_THAT(train(c, {.resume = true}), IsEmpty());
}

TEST_F(ReplicatedRun, AReplicaThatCannotBeWrittenHarmsNothing) {
  std::ofstream(folder_ / "disk") << "no folder can be made here";
  Config c = replicated();
  c.run.replica = (folder_ / "disk" / "copy").string();
  EXPECT_THAT(train(c), ElementsAre(AllOf(HasSubstr("cannot be copied"), HasSubstr("goes on"))));
  Config alone = replicated("alone");
  alone.run.replica.clear();
  train(alone);
  expect_same_bits(parameters_of(c), parameters_of(alone));
}

TEST_F(ReplicatedRun, GoesOnCopyingWhenItCanAgain) {
  std::ofstream(folder_ / "disk") << "no folder can be made here";
  Config c = replicated();
  c.run.replica = (folder_ / "disk" / "copy").string();
  const auto mended = std::make_shared<AfterStep>(3, [&] { fs::remove(folder_ / "disk"); });
  EXPECT_THAT(train(c, {}, mended),
              ElementsAre(HasSubstr("cannot be copied"), HasSubstr("works again")));
  EXPECT_THAT(RunDirectory(c.run.replica).checkpoint_steps(), Contains(6));
}

TEST_F(ReplicatedRun, AFolderThatIsRemovedDuringTheRunIsToldOf) {
  const Config c = replicated();
  const auto removed = std::make_shared<AfterStep>(3, [&] {
    accrue::testing::wait_until([&] { return fs::exists(copy().run_file()); });
    fs::rename(copy().root(), folder_ / "moved");
  });
  EXPECT_THAT(train(c, {}, removed), ElementsAre(HasSubstr("cannot be copied")));
  EXPECT_FALSE(fs::exists(copy().root()));
}

TEST_F(ReplicatedRun, FoldersThatDoNotGoTogetherAreRefusedBeforeAnythingIsWritten) {
  Config c = replicated();
  c.run.replica = c.run.out;
  EXPECT_THAT(usage_message([&] { train(c); }), HasSubstr("run.replica"));
  c.run.replica = c.run.out + "/copy";
  EXPECT_THAT(usage_message([&] { Trainer(c).preview({}); }), HasSubstr("run.replica"));
  EXPECT_FALSE(fs::exists(c.run.out));

  Config other = replicated("other");
  other.run.seed = 7;
  other.run.replica = (folder_ / "copy of other").string();
  stop_after_two_steps(other);
  c.run.replica = other.run.replica;
  EXPECT_THAT(usage_message([&] { train(c); }), HasSubstr("holds a run already"));
  EXPECT_FALSE(fs::exists(c.run.out));
  c.run.replica.clear();
  stop_after_two_steps(c);
  c.run.replica = other.run.replica;
  EXPECT_THAT(usage_message([&] { train(c, {.resume = true}); }), HasSubstr("another run"));
}

TEST_F(ReplicatedRun, ARunThatIsResumedMayTakeAReplica) {
  Config c = replicated();
  c.run.replica.clear();
  stop_after_two_steps(c);
  c.run.replica = (folder_ / "copy").string();
  EXPECT_THAT(train(c, {.resume = true}), IsEmpty());
  EXPECT_THAT(copy().checkpoint_steps(), Contains(6));
}

TEST_F(ReplicatedRun, TheReplicaIsARunToGoOnWith) {
  const Config c = replicated();
  stop_after_two_steps(c);
  Config there = copy().config();
  there.run.out = copy().root().string();
  EXPECT_THAT(usage_message([&] { train(there, {.resume = true}); }), HasSubstr("run.replica"));
  there.run.replica.clear();
  there.observe.progress = observe::ProgressStyle::off;
  EXPECT_THAT(train(there, {.resume = true}), IsEmpty());
  Config alone = replicated("alone");
  alone.run.replica.clear();
  train(alone);
  expect_same_bits(parameters_of(there), parameters_of(alone));
}

}  // namespace
}  // namespace accrue::train
