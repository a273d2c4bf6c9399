#include "train/checkpoint/run_copies.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/json_checksum.h"
#include "support/errors.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A run with checkpoints of steps 1 to 6, and a second folder with a copy of everything.
class RunCopiesTest : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    Config c = config();
    c.run.checkpoint_every = {1, Duration::Unit::steps};
    c.run.keep = 100;
    Trainer(c).run();
    own_ = c.run.out;
    copy_ = folder_ / "copy";
    fs::copy(own_, copy_, fs::copy_options::recursive);
  }

  RunCopies copies() const { return RunCopies(RunDirectory(own_), copy_); }
  std::string refusal(const fs::path& replica, bool resume) const {
    return usage_message([&] { RunCopies(RunDirectory(own_), replica).check_replica(resume); });
  }
  static void edit_record(const fs::path& run, const std::function<void(json&)>& edit) {
    json record = json::parse(read_file(run / "run.json"));
    edit(record);
    write_file_atomically(run / "run.json", text_with_checksum(record));
  }
  static fs::path folder_of(const fs::path& run, std::int64_t step) {
    return RunDirectory(run).checkpoint(step);
  }

  fs::path own_, copy_;
};

TEST_F(RunCopiesTest, AReplicaInTheRunOrAroundItIsRefused) {
  fs::create_directory_symlink(own_, folder_ / "link");
  for (const bool resume : {false, true})
    for (const fs::path& nested :
         {own_, own_ / "copies", folder_, fs::path(own_.string() + "/"), folder_ / "link",
          folder_ / "link" / "copies", own_ / ".." / own_.filename()})
      EXPECT_THAT(refusal(nested, resume), HasSubstr("run.out")) << nested;
  EXPECT_NO_THROW(RunCopies(RunDirectory(own_), own_.string() + "2").check_replica(true))
      << "the control: a name that only begins alike";
}

TEST_F(RunCopiesTest, AReplicaWithOthersFilesIsRefused) {
  EXPECT_THAT(refusal(copy_, false), HasSubstr("holds a run already"));
  EXPECT_NO_THROW(copies().check_replica(true)) << "the control: this run's";

  edit_record(copy_, [](json& run) { run["start"] = "another"; });
  EXPECT_THAT(refusal(copy_, true), HasSubstr("another run"));
  fs::remove(copy_ / "run.json");
  EXPECT_THAT(refusal(copy_, true), HasSubstr("without a run.json"));

  fs::create_directory(folder_ / "other");
  std::ofstream(folder_ / "other" / ".hidden") << "";
  std::ofstream(folder_ / "other" / "job.log") << "";
  EXPECT_NO_THROW(RunCopies(RunDirectory(own_), folder_ / "other").check_replica(false));
  std::ofstream(folder_ / "other" / "thesis.tex") << "a user's";
  for (const bool resume : {false, true})
    EXPECT_THAT(refusal(folder_ / "other", resume), HasSubstr("thesis.tex"));
  EXPECT_THAT(refusal(folder_ / "text.txt", true), HasSubstr("a file"));
}

TEST_F(RunCopiesTest, ALostRunIsFoundInItsReplica) {
  EXPECT_NO_THROW(copies().check_own(true));
  EXPECT_EQ(copies().record().root(), own_);
  fs::remove_all(own_);
  EXPECT_TRUE(copies().hold_run());
  EXPECT_EQ(copies().record().root(), copy_);
  EXPECT_NO_THROW(copies().check_own(true));
  EXPECT_NO_THROW(copies().check_replica(true));
  EXPECT_THAT(usage_message([&] {
                copies().check_own(false);
                copies().check_replica(false);
              }),
              HasSubstr("--resume"));
  EXPECT_EQ(copies().newest_whole(), folder_of(copy_, 6));

  const RunCopies alone{RunDirectory(own_)};
  EXPECT_FALSE(alone.hold_run());
  EXPECT_THAT(usage_message([&] { alone.check_own(true); }), HasSubstr("none"));
}

TEST_F(RunCopiesTest, OfOneStepTheRunsOwnCheckpointComesFirst) {
  fs::remove_all(folder_of(own_, 5));
  fs::remove_all(folder_of(own_, 6));
  fs::remove_all(folder_of(copy_, 6));
  for (const std::int64_t step : {1, 2, 3}) {
    fs::remove_all(folder_of(own_, step));
    fs::remove_all(folder_of(copy_, step));
  }
  EXPECT_THAT(copies().checkpoints(),
              ElementsAre(folder_of(copy_, 4), folder_of(own_, 4), folder_of(copy_, 5)));
  EXPECT_EQ(copies().newest_whole(), folder_of(copy_, 5));
  EXPECT_TRUE(copies().is_of_replica(folder_of(copy_, 5)));
  EXPECT_FALSE(copies().is_of_replica(folder_of(own_, 4)));

  EXPECT_EQ(copies().checkpoint(4), folder_of(own_, 4));
  fs::resize_file(folder_of(own_, 4) / "model.safetensors", 10);
  EXPECT_EQ(copies().checkpoint(4), folder_of(copy_, 4));
  EXPECT_THAT(usage_message([&] { copies().checkpoint(3); }), HasSubstr("step 3"));
}

/// The run was resumed from step 2, which the replica does not know yet.
TEST_F(RunCopiesTest, WhatWasGivenUpIsNoCheckpointOfTheReplica) {
  for (const std::int64_t step : {3, 4, 5, 6}) fs::remove_all(folder_of(own_, step));
  EXPECT_EQ(copies().newest_whole(), folder_of(copy_, 6)) << "the control: they were lost";
  edit_record(own_, [](json& run) { run["resumed"].push_back({{"step", 2}}); });
  EXPECT_EQ(copies().newest_whole(), folder_of(own_, 2));
  edit_record(copy_, [](json& run) { run["resumed"].push_back({{"step", 2}}); });
  EXPECT_EQ(copies().newest_whole(), folder_of(copy_, 6)) << "they are of this attempt";
}

TEST_F(RunCopiesTest, BringsBackWhatTheRunLost) {
  EXPECT_THAT(copies().restore_record(), IsEmpty()) << "the control: nothing was lost";
  fs::create_directory(copy_ / "tokenizer");
  std::ofstream(copy_ / "tokenizer" / "tokenizer.json") << "words";
  const std::string config = read_file(own_ / "config.toml"),
                    metrics = read_file(own_ / "metrics.jsonl"),
                    record = read_file(own_ / "run.json");
  std::ofstream(own_ / "run.json") << record.substr(0, 30);
  fs::remove(own_ / "config.toml");
  fs::remove(own_ / "metrics.jsonl");
  EXPECT_THAT(copies().restore_record(),
              ElementsAre("tokenizer", "metrics.jsonl", "run.json", "config.toml"));
  EXPECT_EQ(read_file(own_ / "tokenizer" / "tokenizer.json"), "words");
  EXPECT_EQ(read_file(own_ / "config.toml"), config);
  EXPECT_EQ(read_file(own_ / "metrics.jsonl"), metrics);
  EXPECT_EQ(read_file(own_ / "run.json"), record);
  EXPECT_THAT(copies().restore_record(), IsEmpty());
}

}  // namespace
}  // namespace accrue::train
