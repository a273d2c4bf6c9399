#include "train/checkpoint/replica.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::error_of;
using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A run with checkpoints of steps 1 to 6, which are copied as if it were still running.
class ReplicaTest : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    config_ = config();
    config_.run.checkpoint_every = {1, Duration::Unit::steps};
    config_.run.keep = 100;
    Trainer(config_).run();
  }

  RunDirectory own() const { return RunDirectory(config_.run.out); }
  RunDirectory copy() const { return RunDirectory(folder_ / "disk" / "copy"); }
  RunCopies copies() const { return RunCopies(own(), copy().root()); }

  static void expect_same_files(const fs::path& a, const fs::path& b) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(a)) {
      names.push_back(entry.path().filename().string());
      EXPECT_EQ(read_file(entry.path()), read_file(b / names.back())) << names.back();
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(b), {}), std::ssize(names));
  }
  static void flip_the_last_bit(const fs::path& file) {
    std::string content = read_file(file);
    content.back() = static_cast<char>(content.back() ^ 1);
    std::ofstream(file, std::ios::binary) << content;
  }

  Config config_;
};

TEST_F(ReplicaTest, ACopyIsARunDirectory) {
  fs::create_directory(own().tokenizer_folder());
  std::ofstream(own().tokenizer_folder() / "tokenizer.json") << "words";
  ReplicaFolder folder(copies());
  EXPECT_TRUE(folder.copy({.newest = 3, .keep = 2}));
  expect_same_files(own().checkpoint(3), copy().checkpoint(3));
  EXPECT_EQ(read_file(copy().config_file()), read_file(own().config_file()));
  EXPECT_EQ(read_file(copy().run_file()), read_file(own().run_file()));
  EXPECT_EQ(read_file(copy().tokenizer_folder() / "tokenizer.json"), "words");
  EXPECT_TRUE(load_model(copy(), 3) != nullptr);

  const std::string metrics = read_file(copy().metrics_file());
  EXPECT_EQ(read_file(own().metrics_file()).find(metrics), 0U);
  EXPECT_THAT(metrics, HasSubstr("\"step\":3,\"epoch\""));
  EXPECT_THAT(read_file(own().metrics_file()), HasSubstr("\"step\":4,\"epoch\""));
  EXPECT_EQ(metrics.find("\"step\":4,\"epoch\""), std::string::npos) << "as far as the checkpoint";
}

TEST_F(ReplicaTest, IsPrunedLikeTheRunAndNothingElseIsRemoved) {
  fs::create_directories(copy().root());
  std::ofstream(copy().root() / "job.log") << "a user's";
  ReplicaFolder folder(copies());
  for (const std::int64_t step : {1, 2, 3, 5})
    EXPECT_TRUE(folder.copy({.newest = step, .keep = 2, .best = 1}));
  fs::create_directory(copy().checkpoints() / "best-00000009");
  EXPECT_THAT(copy().checkpoint_steps(), ElementsAre(1, 3, 5));
  EXPECT_TRUE(folder.copy({.newest = 4, .keep = 2, .best = 1}));
  EXPECT_THAT(copy().checkpoint_steps(), ElementsAre(1, 3, 4)) << "step 5 was given up";
  EXPECT_TRUE(fs::exists(copy().checkpoints() / "best-00000009"));
  EXPECT_EQ(read_file(copy().root() / "job.log"), "a user's");
}

TEST_F(ReplicaTest, ADamagedCheckpointIsNotCopiedAndTheCopiesBeforeStay) {
  ReplicaFolder folder(copies());
  EXPECT_TRUE(folder.copy({.newest = 1, .keep = 1}));
  flip_the_last_bit(own().checkpoint(2) / "model.safetensors");
  EXPECT_THAT(error_of([&] { folder.copy({.newest = 2, .keep = 1}); }),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("tensor \"")));
  EXPECT_THAT(copy().checkpoint_steps(), ElementsAre(1));
  EXPECT_FALSE(fs::exists(partial_of(copy().checkpoint(2))));
  EXPECT_TRUE(folder.copy({.newest = 3, .keep = 1})) << "the control";
  EXPECT_THAT(copy().checkpoint_steps(), ElementsAre(3));
}

TEST_F(ReplicaTest, ACheckpointThatIsGoneIsNoFailure) {
  ReplicaFolder folder(copies());
  fs::remove_all(own().checkpoint(2));
  EXPECT_FALSE(folder.copy({.newest = 2, .keep = 1}));
  EXPECT_FALSE(fs::exists(copy().run_file())) << "nothing was begun";
}

TEST_F(ReplicaTest, AFolderThatWentAwayDoesNotComeBackByItself) {
  ReplicaFolder folder(copies());
  EXPECT_TRUE(folder.copy({.newest = 1, .keep = 1}));
  fs::rename(copy().root(), folder_ / "moved");
  EXPECT_THAT(error_of([&] { folder.copy({.newest = 2, .keep = 1}); }), HasSubstr("not mounted"));
  EXPECT_FALSE(fs::exists(copy().root()));
  fs::create_directories(copy().root());
  EXPECT_TRUE(folder.copy({.newest = 3, .keep = 1}));
  EXPECT_THAT(copy().checkpoint_steps(), ElementsAre(3));
  EXPECT_THAT(RunDirectory(folder_ / "moved").checkpoint_steps(), ElementsAre(1)) << "left alone";
}

TEST_F(ReplicaTest, AnotherRunsFilesAreLeftAlone) {
  ReplicaFolder folder(copies());
  EXPECT_TRUE(folder.copy({.newest = 1, .keep = 1}));
  fs::rename(copy().root(), folder_ / "moved");
  auto record = nlohmann::json::parse(read_file(own().run_file()));
  record["start"] = "another";
  fs::create_directories(copy().root());
  std::ofstream(copy().run_file()) << record.dump();
  EXPECT_THAT(error_of([&] { folder.copy({.newest = 2, .keep = 1}); }), HasSubstr("another run"));
  EXPECT_EQ(read_file(copy().run_file()), record.dump());
  EXPECT_FALSE(fs::exists(copy().checkpoints()));
}

TEST_F(ReplicaTest, TheThreadCopiesWhatWaitsLast) {
  Replica replica(copies());
  for (const std::int64_t step : {1, 2, 3, 4, 5, 6}) replica.copy({.newest = step, .keep = 100});
  replica.finish();
  const std::vector<std::int64_t> steps = copy().checkpoint_steps();
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back(), 6) << "the newest is never left out";
  for (const std::int64_t step : steps)
    expect_same_files(own().checkpoint(step), copy().checkpoint(step));
  EXPECT_THAT(replica.take_remarks(), IsEmpty());
}

TEST_F(ReplicaTest, TheEndWaitsForWhatWasAskedFor) {
  { Replica(copies()).copy({.newest = 6, .keep = 1}); }
  EXPECT_THAT(copy().checkpoint_steps(), ElementsAre(6));
  EXPECT_FALSE(fs::exists(copy().root() / ".accrue-lock"));
}

TEST_F(ReplicaTest, AFailureIsToldOnceAndItsEndToo) {
  std::ofstream(folder_ / "disk") << "no folder can be made here";
  Replica replica(copies());
  EXPECT_THAT(replica.take_remarks(), ElementsAre(HasSubstr("tried again")));
  for (const std::int64_t step : {1, 2}) {
    replica.copy({.newest = step, .keep = 1});
    replica.finish();
  }
  EXPECT_THAT(replica.take_remarks(), IsEmpty()) << "it was told";
  replica.copy_end(2);
  EXPECT_THAT(replica.take_remarks(), IsEmpty());
  fs::remove(folder_ / "disk");
  for (const std::int64_t step : {3, 4}) {
    replica.copy({.newest = step, .keep = 1});
    replica.finish();
  }
  EXPECT_THAT(replica.take_remarks(),
              ElementsAre(AllOf(HasSubstr("step 3"), HasSubstr("works again"))));
  EXPECT_THAT(copy().checkpoint_steps(), ElementsAre(4));
}

TEST_F(ReplicaTest, TwoRunsDoNotShareOne) {
  const Replica first(copies());
  EXPECT_THAT(usage_message([&] { Replica{copies()}; }),
              AllOf(HasSubstr("run.replica"), HasSubstr("process " + std::to_string(getpid()))));
}

TEST_F(ReplicaTest, LeavesNothingWhereNothingWasCopied) {
  { const Replica replica(copies()); }
  EXPECT_FALSE(fs::exists(folder_ / "disk"));
}

}  // namespace
}  // namespace accrue::train
