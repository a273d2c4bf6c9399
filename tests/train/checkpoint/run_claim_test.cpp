#include "train/checkpoint/run_claim.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "support/at_span.h"
#include "support/errors.h"
#include "train/checkpoint/run_info.h"
#include "train/recorder.h"
#include "train/run/claimed_observer.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::AtSpan;
using accrue::testing::error_of;
using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RunClaimTest : public testing::TinyRun {
 protected:
  RunDirectory run() const { return RunDirectory(folder_ / "a" / "run"); }

  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::recursive_directory_iterator(folder_),
                                                  fs::recursive_directory_iterator{}));
  }
};

TEST_F(RunClaimTest, TheSecondIsRefusedAndToldWhoIsFirst) {
  std::optional<RunClaim> first(run());
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }),
              AllOf(HasSubstr("process " + std::to_string(getpid())), HasSubstr("since 20")));
  first.reset();
  EXPECT_NO_THROW(RunClaim{run()});
}

TEST_F(RunClaimTest, DiesWithItsProcess) {
  int ready[2], stay[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(stay), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunClaim claim(run());
    char byte = 0;
    _exit(write(ready[1], "x", 1) == 1 && read(stay[0], &byte, 1) == 1 ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }),
              HasSubstr("process " + std::to_string(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(run().root() / ".accrue-lock")) << "the file stayed, the lock did not";
  EXPECT_NO_THROW(RunClaim{run()});
}

/// Between locking and writing the name, the file is empty or names a dead process.
TEST_F(RunClaimTest, TheNameIsWaitedFor) {
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const auto name_of = [](pid_t process) {
    return nlohmann::json{{"host", host_name()}, {"process", process}, {"since", "2026"}}.dump();
  };
  fs::create_directories(run().root());
  const fs::path file = run().root() / ".accrue-lock";
  for (const std::string& before : {std::string(), name_of(dead)}) {
    std::ofstream(file) << before;
    const int lock = open(file.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
    const AtSpan waits("claim: name", [&] { std::ofstream(file) << name_of(getpid()); });
    EXPECT_THAT(usage_message([&] { RunClaim{run()}; }),
                HasSubstr("process " + std::to_string(getpid())));
    close(lock);
  }
}

TEST_F(RunClaimTest, WaitsForWhoOnlyAsksWhetherItIsClaimed) {
  fs::create_directories(run().root());
  const fs::path file = run().root() / ".accrue-lock";
  std::ofstream(file) << "";
  const int question = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(question, LOCK_SH | LOCK_NB), 0);
  const AtSpan waits("claim: lock", [&] { close(question); });
  EXPECT_NO_THROW(RunClaim{run()});
}

TEST_F(RunClaimTest, LeavesNothingWhereNothingWasCreated) {
  const std::size_t before = entries();
  { const RunClaim claim(run()); }
  EXPECT_EQ(entries(), before);
}

TEST_F(RunClaimTest, LeavesAFolderThatSomebodyMadeInItsPlace) {
  {
    const RunClaim claim(run());
    fs::rename(run().root(), folder_ / "moved");
    fs::create_directory(run().root());
  }
  EXPECT_TRUE(fs::exists(run().root()));
}

TEST_F(RunClaimTest, TakesBackWhatItMadeAndNothingElse) {
  fs::create_directories(run().root());
  std::ofstream(run().root() / "mine.txt") << "a user's";
  const std::size_t before = entries();
  {
    RunClaim claim(run());
    claim.create(config(), "{}\n", KeptTokenizer({{run().root() / "mine.txt", "of_it.txt"}}));
    EXPECT_TRUE(run().holds_run());
    EXPECT_EQ(read_file(run().tokenizer_folder() / "of_it.txt"), "a user's");
    fs::create_directory(run().tensorboard_folder());
    std::ofstream(run().tensorboard_folder() / "events.out.tfevents.1700000000.host.1")
        << "a sink's";
    claim.abandon();
  }
  EXPECT_EQ(entries(), before);
  EXPECT_EQ(read_file(run().root() / "mine.txt"), "a user's");
}

TEST_F(RunClaimTest, RefusesWhatIsNoFolderAndLeavesIt) {
  fs::create_directories(folder_ / "a");
  std::ofstream(run().root()) << "a user's";
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }), HasSubstr("a file"));
  EXPECT_EQ(read_file(run().root()), "a user's");

  fs::rename(run().root(), folder_ / "file");
  fs::create_symlink(folder_ / "file", run().root());
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }), HasSubstr("a file"));
  fs::remove(folder_ / "file");
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }), HasSubstr("a link to nothing"));
  EXPECT_TRUE(fs::is_symlink(run().root()));
}

TEST_F(RunClaimTest, AnythingInTheRunsPlacesCountsAsARun) {
  fs::create_directories(run().root());
  EXPECT_FALSE(run().holds_run());
  fs::create_symlink(folder_ / "nowhere", run().config_file());
  EXPECT_TRUE(run().holds_run());
}

TEST_F(RunClaimTest, RefusesFilesThatAreLinksByName) {
  fs::create_directories(run().root());
  const fs::path target = folder_ / "target";
  write_file_atomically(target, "somebody else's");
  for (const fs::path& file : {run().config_file(), run().run_file(), run().metrics_file()}) {
    fs::create_symlink(target, file);
    EXPECT_THAT(usage_message([&] { RunClaim{run()}; }),
                AllOf(HasSubstr(file.string()), HasSubstr("a link to " + target.string())));
    fs::remove(file);
  }
  const fs::path lock = run().root() / ".accrue-lock";
  fs::create_hard_link(target, lock);
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }),
              AllOf(HasSubstr(lock.string()), HasSubstr("a hard link")));
  fs::remove(lock);
  fs::create_symlink(target, lock);
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }), HasSubstr("a link"));
  fs::remove(lock);
  EXPECT_EQ(read_file(target), "somebody else's");
  EXPECT_NO_THROW(RunClaim{run()}) << "the control: none is left";
}

TEST_F(RunClaimTest, TakesFoldersOnOtherDisksAndNamesThem) {
  const fs::path disk = folder_ / "disk";
  fs::create_directories(run().root());
  fs::create_directory_symlink(disk, run().checkpoints());
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }), HasSubstr("which is no folder"));
  fs::create_directories(disk);
  const RunClaim claim(run());
  ASSERT_EQ(claim.remarks().size(), 1U);
  EXPECT_THAT(claim.remarks().front(),
              AllOf(HasSubstr(run().checkpoints().string()), HasSubstr(disk.string())));
}

TEST_F(RunClaimTest, NoticesThatTheFolderIsGone) {
  const RunClaim claim(run());
  EXPECT_NO_THROW(claim.check_there());
  const auto message = [&] { return error_of([&] { claim.check_there(); }, Error::Kind::runtime); };
  fs::rename(run().root(), folder_ / "elsewhere");
  EXPECT_THAT(message(), HasSubstr("deleted or moved"));
  fs::create_directories(run().root());
  EXPECT_THAT(message(), HasSubstr("another one"));
  fs::remove(run().root());
  fs::rename(folder_ / "elsewhere", run().root());
  EXPECT_NO_THROW(claim.check_there()) << "the control: it came back";
}

/// Counts the reported steps.
struct CountsSteps final : Observer {
  explicit CountsSteps(int& told) : told_(told) {}
  void on_step(const StepReport&) override { ++told_; }
  void on_rollback(std::int64_t) override { ++told_; }
  int& told_;
};

TEST_F(RunClaimTest, IsTakenOverByALaterGroupOfTheSameRun) {
  RunClaim first(run());
  first.create(config(), "{}\n");
  const RunTenure later{first.tenure().run, 1};
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }), HasSubstr("held by process"))
      << "the control: another run";
  EXPECT_THAT(usage_message([&] { RunClaim(run(), first.tenure()); }), HasSubstr("held by process"))
      << "the control: the same group";
  int told = 0;
  ClaimedObserver tells(first, std::make_unique<CountsSteps>(told));
  tells.on_step({});
  EXPECT_TRUE(first.is_held());
  EXPECT_EQ(told, 1);

  const RunClaim second(run(), later);
  EXPECT_TRUE(second.is_held());
  EXPECT_FALSE(first.is_held());
  EXPECT_THAT(error_of([&] { first.check_there(); }, Error::Kind::runtime),
              AllOf(HasSubstr("took over: process " + std::to_string(getpid())),
                    HasSubstr("starting this rank again")));
  const std::size_t before = entries();
  tells.on_step({});
  tells.on_rollback(0);
  first.abandon();
  EXPECT_EQ(told, 1) << "who was left behind tells nothing";
  EXPECT_EQ(entries(), before) << "and removes nothing";
  EXPECT_THAT(usage_message([&] { RunClaim{run()}; }), HasSubstr("held by process"));
  EXPECT_THAT(usage_message([&] { RunClaim(run(), later); }), HasSubstr("held by process"))
      << "one that was left behind before it took over";
}

TEST_F(RunClaimTest, LeavesTheLockOfWhoTookItOver) {
  std::optional<RunClaim> first(run());
  const RunClaim second(run(), {first->tenure().run, 3});
  first.reset();
  EXPECT_NO_THROW(second.check_there());
}

TEST_F(RunClaimTest, ARunWhoseFolderGoesEndsWithAnError) {
  const fs::path away = folder_ / "away";
  for (const bool deleted : {true, false}) {
    Config c = config(deleted ? "deleted" : "moved");
    c.run.checkpoint_every = {1, Duration::Unit::steps};
    Trainer trainer(c);
    trainer.add_observer(std::make_shared<testing::AfterStep>(
        3, [&] { deleted ? void(fs::remove_all(c.run.out)) : fs::rename(c.run.out, away); }));
    error_of([&] { trainer.run(); }, Error::Kind::runtime);
    EXPECT_FALSE(fs::exists(c.run.out)) << "it did not come back as half a folder";
  }
  Config moved = config();
  moved.run.out = away.string();
  EXPECT_EQ(Trainer(moved).run({.resume = true}).step, 6) << "and goes on at its new place";
}

}  // namespace
}  // namespace accrue::train
