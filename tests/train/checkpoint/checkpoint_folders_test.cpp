#include "train/checkpoint/checkpoint_folders.h"

#include <gmock/gmock.h>

#include <fstream>

#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CheckpointFolders : public testing::TinyRun {
 protected:
  /// Checkpoints of steps 1 to 6.
  void SetUp() override {
    TinyRun::SetUp();
    config_ = config();
    config_.run.checkpoint_every = {1, Duration::Unit::steps};
    config_.run.keep = 100;
    Trainer(config_).run();
  }

  RunDirectory run() const { return RunDirectory(config_.run.out); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(run().checkpoints()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  Config config_;
};

TEST_F(CheckpointFolders, KnowsOnlyItsOwnNames) {
  EXPECT_EQ(step_of_folder("a/step-00000010"), 10);
  for (const char* name : {"step-", "step-1a", "best-00000010", ".step-00000010.partial", "10"})
    EXPECT_EQ(step_of_folder(name), std::nullopt) << name;
}

TEST_F(CheckpointFolders, PruningKeepsTheNewestAndTheBest) {
  prune_checkpoints(run(), {.newest = 5, .keep = 2, .best = 1});
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000004", "step-00000005"));
}

TEST_F(CheckpointFolders, ASweepEndsWhatAKilledProcessBegan) {
  const fs::path folder = run().checkpoints();
  for (const char* name :
       {".step-00000007.partial", ".step-00000008-77.partial", ".step-00000002.removed"})
    fs::create_directories(folder / name / "half");
  fs::copy(folder / "step-00000003", folder / ".step-00000003.replaced");
  // The process died after setting the old one aside and before putting the new one in its place.
  fs::rename(folder / "step-00000004", folder / ".step-00000004.replaced");
  fs::create_directories(folder / ".step-00000004.partial");
  // These belong to someone else.
  fs::create_directories(folder / ".step-x.partial");
  fs::create_directories(folder / "notes.removed");
  const std::vector<std::int64_t> all{1, 2, 3, 4, 5, 6};
  sweep(run());
  EXPECT_EQ(run().checkpoint_steps(), all);
  EXPECT_THAT(names(),
              ElementsAre(".step-x.partial", "notes.removed", "step-00000001", "step-00000002",
                          "step-00000003", "step-00000004", "step-00000005", "step-00000006"));
}

TEST_F(CheckpointFolders, ASweepTakesWhatAKilledProcessWroteBesideTheRunsOwnFiles) {
  for (const char* name : {"run.json.partial-77-0", "config.toml.partial-123456-12",
                           "run.json.partial-mine", "run.json.partial", "notes.txt.partial-77-0"})
    std::ofstream(run().root() / name) << "half";
  sweep(run());
  EXPECT_FALSE(fs::exists(run().root() / "run.json.partial-77-0"));
  EXPECT_FALSE(fs::exists(run().root() / "config.toml.partial-123456-12"));
  for (const char* name : {"run.json.partial-mine", "run.json.partial", "notes.txt.partial-77-0",
                           "run.json", "config.toml"})
    EXPECT_TRUE(fs::exists(run().root() / name)) << name;
}

TEST_F(CheckpointFolders, ACheckpointTakesTheNameOfWhateverLiesThere) {
  const fs::path folder = run().checkpoints();
  const fs::path elsewhere = config_.run.out + "-elsewhere";
  fs::create_directory(elsewhere);
  fs::create_symlink(elsewhere / "nowhere", folder / "step-00000007");
  fs::create_directory_symlink(elsewhere, folder / "step-00000008");
  std::ofstream(folder / "step-00000009") << "a file";
  for (const char* name : {"step-00000007", "step-00000008", "step-00000009"}) {
    const fs::path partial = partial_of(folder / name);
    fs::copy(folder / "step-00000006", partial);
    put_in_place(partial, folder / name);
    EXPECT_TRUE(fs::is_directory(fs::symlink_status(folder / name))) << name;
    EXPECT_TRUE(fs::exists(folder / name / "manifest.json")) << name;
    EXPECT_FALSE(fs::exists(fs::symlink_status(partial))) << name;
  }
  EXPECT_TRUE(fs::is_empty(elsewhere));
}

TEST_F(CheckpointFolders, ARunSweepsAsItStarts) {
  fs::create_directories(run().checkpoints() / ".step-00000002.removed");
  Trainer(config_).run({.resume = true});
  EXPECT_FALSE(fs::exists(run().checkpoints() / ".step-00000002.removed"));
}

TEST_F(CheckpointFolders, GivingUpAnAttemptKeepsItsBest) {
  EXPECT_THAT(give_up_after(run(), 6), IsEmpty());
  const std::string said = give_up_after(run(), 2);
  // The only evaluation is the one at the end.
  EXPECT_THAT(said, ::testing::HasSubstr("best-00000006"));
  EXPECT_THAT(said, ::testing::HasSubstr("3, 4 and 5"));
  EXPECT_TRUE(fs::exists(run().checkpoints() / "best-00000006" / "model.safetensors"));
  EXPECT_THAT(run().checkpoint_steps(), ElementsAre(1, 2, 3, 4, 5)) << "until the next is written";
}

TEST_F(CheckpointFolders, ResumingFromAnEarlierStepSaysWhatItGivesUp) {
  Trainer trainer(config_);
  const auto recorder = std::make_shared<testing::Recorder>();
  trainer.add_observer(recorder);
  trainer.run({.resume = true, .checkpoint = "3"});
  EXPECT_TRUE(recorder->has_event("checkpoint"));
  EXPECT_TRUE(fs::exists(run().checkpoints() / "best-00000006"));

  Trainer again(config_);
  const auto quiet = std::make_shared<testing::Recorder>();
  again.add_observer(quiet);
  again.run({.resume = true});
  EXPECT_FALSE(quiet->has_event("checkpoint")) << "the control: nothing is given up";
}

}  // namespace
}  // namespace accrue::train
