// Files of a run that others change, remove or use while it trains, and runs that are killed while
// they write some.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/atomic_file.h"
#include "faulty_program.h"
#include "metrics_log.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ChangedRun : public FaultyProgram {
 protected:
  void SetUp() override {
    FaultyProgram::SetUp();
    fs::create_directories(folder_ / "second");
  }

  void write_byte(std::uintmax_t at) const {
    std::fstream file(folder_ / "text.txt", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << '#';
  }
  MetricsLog log() const { return MetricsLog(folder_ / "out"); }

  /// Starts the program on the same run, with a separate folder for its streams.
  Program second(Words arguments) const {
    arguments.insert(arguments.begin(), ACCRUE_PROGRAM);
    arguments.push_back("--run.out=" + (folder_ / "out").string());
    arguments.push_back("--data.train=[\"" + (folder_ / "text.txt").string() + "\"]");
    return {folder_ / "second", std::move(arguments)};
  }
};

TEST_F(ChangedRun, ASecondProcessIsRefusedAndNothingOfTheFirstIsTouched) {
  const Pause pause(folder_, "first");
  Program first = start_with({pauses_in_step(7, "first"), stops_in_step(7)},
                             long_run("out", {"--run.checkpoint_every=5"}));
  pause.wait();
  const std::string config = (folder_ / "run.toml").string();
  for (const Words& words : {Words{"train", config}, Words{"train", config, "--resume"}}) {
    const Program::Result refused = second(words).wait();
    EXPECT_EQ(refused.status, 2) << refused.errors;
    EXPECT_THAT(refused.errors,
                AllOf(HasSubstr("process " + std::to_string(first.process())), HasSubstr("since")));
  }
  const Program::Result pruned = Program(folder_ / "second", {ACCRUE_PROGRAM, "checkpoint", "prune",
                                                              (folder_ / "out").string()})
                                     .wait();
  EXPECT_EQ(pruned.status, 2) << pruned.errors;
  pause.release();
  EXPECT_EQ(first.wait().status, kInterrupted);
  EXPECT_THAT(checkpoints_of("out"), ElementsAre("step-00000005", "step-00000006"));
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 0);
  EXPECT_FALSE(fs::exists(folder_ / "out/.accrue-lock"));
}

TEST_F(ChangedRun, MovedDuringTheRunIsAnError) {
  const Fault in_a_step = pauses_in_step(7, "run"),
              in_a_checkpoint{.at = "checkpoint:write", .action = "pause:run", .count = 2};
  for (const Fault& when : {in_a_step, in_a_checkpoint}) {
    SCOPED_TRACE(when.at);
    const Pause pause(folder_, "run");
    Program run = start_with({when}, long_run("out", {"--run.checkpoint_every=5"}));
    pause.wait();
    fs::rename(folder_ / "out", folder_ / ("moved at " + when.at));
    pause.release();
    const Program::Result result = run.wait();
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("error: "));
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
}

TEST_F(ChangedRun, RemovedDuringTheRunIsAnError) {
  // Nobody writes while it is removed. The step after the checkpoint waits for it before parameters
  // change, and not before it begins.
  const Pause writes(folder_, "writes"), trains(folder_, "trains");
  Program run = start_with({{.at = "checkpoint:write", .action = "pause:writes", .count = 2},
                            pauses_in_step(11, "trains")},
                           long_run("out", {"--run.checkpoint_every=5"}));
  for (const Pause* pause : {&writes, &trains}) pause->wait();
  fs::remove_all(folder_ / "out");
  for (const Pause* pause : {&writes, &trains}) pause->release();
  const Program::Result result = run.wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("error: "));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(ChangedRun, WhoseDataIsWrittenToStops) {
  const Words often{"--run.checkpoint_every=5"};
  const Pause pause(folder_, "run");
  Program run = start_with({pauses_in_step(7, "run")}, long_run("out", often));
  pause.wait();
  write_byte(100);
  pause.release();
  const Program::Result result = run.wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("text.txt"));
  EXPECT_THAT(result.errors, HasSubstr("written to"));

  const Program::Result again =
      accrue_with({stops_in_step(2)}, long_run("out", {often[0], "--resume", "--accept-data"}));
  EXPECT_EQ(again.status, kInterrupted);
  EXPECT_THAT(read_file(folder_ / "out/metrics.jsonl"), HasSubstr("\"resume\""));
}

TEST_F(ChangedRun, NamesTheLinesOfMetricsThatWereRemoved) {
  const Pause pause(folder_, "here");
  Program run = start_with({pauses_in_step(3, "here")}, {"train", "run.toml"});
  pause.wait();
  fs::remove(folder_ / "out/metrics.jsonl");
  pause.release();
  const auto result = run.wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("no line of steps 1 to 2;"));
  EXPECT_THAT(log().events("metrics"), ElementsAre(HasSubstr("no line of steps 1 to 2;")));
  EXPECT_THAT(log().steps(), ElementsAre(3, 4));
  ASSERT_EQ(accrue({"train", "run.toml", "--resume", "--run.steps=6"}).status, 0);
  EXPECT_EQ(log().events("metrics").size(), 1u) << "the checkpoint knows";
}

TEST_F(ChangedRun, NamesTheLinesOfMetricsThatWereCut) {
  const Pause pause(folder_, "here");
  Program run = start_with({pauses_in_step(3, "here")}, {"train", "run.toml"});
  pause.wait();
  fs::resize_file(folder_ / "out/metrics.jsonl", 0);
  pause.release();
  EXPECT_EQ(run.wait().status, 0);
  EXPECT_THAT(log().events("metrics"), ElementsAre(HasSubstr("no line of steps 1 to 2;")));
}

/// Simulates a full disk. The limit is more than a checkpoint's files take, and less than the lines
/// of a thousand steps.
TEST_F(ChangedRun, EndsByTheLimitOnFileSizesWithACheckpoint) {
  const std::string limited =
      "ulimit -f 700; exec '" + std::string(ACCRUE_PROGRAM) +
      "' train run.toml --run.steps=1000 --run.threads=1 --batch.tokens=32 --batch.micro=2 "
      "'--run.checkpoint_every=100000 steps' --model.width=16";
  const auto result = Program(folder_, {"/bin/sh", "-c", limited}).wait();
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("metrics.jsonl"), HasSubstr("File too large"),
                                   HasSubstr("--resume")));
  const std::vector<int> steps = log().steps();
  const std::string last = std::to_string(steps.back() + 1);
  EXPECT_THAT(checkpoints_of("out").back(), HasSubstr("step-00000" + last));
  const auto resumed =
      accrue({"train", "run.toml", "--batch.tokens=32", "--batch.micro=2", "--model.width=16",
              "--resume", "--run.steps=" + std::to_string(steps.back() + 3)});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(log().events("metrics"), ElementsAre(HasSubstr("no line of step " + last + ";")));
}

TEST_F(ChangedRun, SharesItsReplicaWithNoOther) {
  fs::create_directories(folder_ / "streams");
  const Pause pause(folder_, "first");
  Program first(
      folder_ / "streams",
      with({pauses_in_step(2, "first"), stops_in_step(2)},
           {"train", (folder_ / "run.toml").string(), "--run.out=" + (folder_ / "first").string(),
            "--run.replica=" + (folder_ / "copy").string(),
            "--data.train=[\"" + (folder_ / "text.txt").string() + "\"]", "--run.steps=1000000",
            "--run.checkpoint_every=1000000"}));
  pause.wait();
  EXPECT_TRUE(fs::exists(folder_ / "copy/.accrue-lock"));
  const Program::Result refused = accrue({"train", "run.toml", "--run.replica=copy"});
  EXPECT_EQ(refused.status, 2) << refused.errors;
  EXPECT_THAT(refused.errors, HasSubstr("process " + std::to_string(first.process())));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  pause.release();
  EXPECT_EQ(first.wait().status, kInterrupted);
  EXPECT_THAT(checkpoints_of("copy"), ElementsAre("step-00000001"))
      << "the stop signal waited for the copy";
  EXPECT_FALSE(fs::exists(folder_ / "copy/.accrue-lock"));
}

/// Killed before its second copy, and in the middle of it: a checkpoint has four files. Copies are
/// made while the run continues, which may have written the next checkpoint before the first is
/// copied, so the step of the first copy is read and not assumed.
TEST_F(ChangedRun, TakesUpItsReplicaAfterAKill) {
  const Words often{"--run.replica=copy", "--run.checkpoint_every=3"};
  Words again = often;
  again.push_back("--resume");
  for (const Fault& killed : {Fault{.at = "replica:copy", .action = "kill", .count = 2},
                              Fault{.at = "replica:file", .action = "kill", .count = 4 + 2}}) {
    SCOPED_TRACE(killed.at);
    fs::remove_all(folder_ / "copy");
    EXPECT_EQ(accrue_with({killed}, long_run("out", often)).status, 128 + SIGKILL);
    std::vector<std::string> copies = checkpoints_of("copy");
    if (killed.at == "replica:file") {
      EXPECT_THAT(copies.front(), StartsWith(".")) << "half a copy";
      copies.erase(copies.begin());
    }
    ASSERT_THAT(copies, ElementsAre(StartsWith("step-")));
    const int first = std::stoi(copies[0].substr(std::string_view("step-").size()));
    EXPECT_EQ(accrue({"checkpoint", "verify", "copy"}).status, 0) << "whole or absent";
    fs::remove_all(folder_ / "out");
    const Program::Result result = accrue_with(
        {{.at = "optimizer-step", .action = "TERM", .step = 4}}, long_run("out", again));
    EXPECT_EQ(result.status, kInterrupted) << result.errors;
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("interrupted after step " + std::to_string(first + 4)),
                      Not(HasSubstr("checkpoint_skipped"))));
    EXPECT_THAT(checkpoints_of("copy"), Each(StartsWith("step-")));
    EXPECT_THAT(checkpoints_of("copy"), Contains(EndsWith(std::to_string(first + 4))));
    fs::remove_all(folder_ / "out");
  }
}

}  // namespace
}  // namespace accrue::testing
