// The command line with run.replica.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ReplicaProgram : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }
  /// A constant rate, so that a run of four steps is the beginning of one of eight.
  Program::Result train(Words words) const {
    words.insert(words.begin(), {"train", "run.toml", "--optim.schedule.kind=constant"});
    return accrue(words);
  }
  std::string model_of(const std::string& run, int step) const {
    return read_file(folder_ / run / "checkpoints" / ("step-0000000" + std::to_string(step)) /
                     "model.safetensors");
  }
};

TEST_F(ReplicaProgram, ALostRunFolderIsGoneOnWithToTheBit) {
  ASSERT_EQ(train({"--run.steps=8", "--run.out=undisturbed"}).status, 0);
  ASSERT_EQ(train({"--run.replica=disk/copy"}).status, 0);
  fs::remove_all(folder_ / "out");
  const std::string before = model_of("disk/copy", 4);

  const Words again{"--run.replica=disk/copy", "--run.steps=8", "--resume"};
  Words dry = again;
  dry.push_back("--dry-run");
  const Program::Result preview = train(dry);
  EXPECT_EQ(preview.status, 0) << preview.errors;
  EXPECT_THAT(preview.output, HasSubstr("after step 4, on to step 8"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));

  const Program::Result resumed = train(again);
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(resumed.errors, AllOf(HasSubstr("disk/copy"), HasSubstr("out has no checkpoint")));
  EXPECT_EQ(model_of("out", 8), model_of("undisturbed", 8));
  EXPECT_EQ(model_of("disk/copy", 8), model_of("undisturbed", 8));
  EXPECT_NE(model_of("out", 8), before) << "the control";

  // Each step is reported once, by the copy's metrics and the resumed run's together.
  int lines = 0;
  std::ifstream metrics(folder_ / "out/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);)
    lines += nlohmann::json::parse(line).contains("lr") ? 1 : 0;
  EXPECT_EQ(lines, 8);
}

TEST_F(ReplicaProgram, WithoutAReplicaALostRunIsLost) {
  ASSERT_EQ(train({}).status, 0);
  fs::remove_all(folder_ / "out");
  for (const Words& words : {Words{"--resume"}, Words{"--resume", "--run.replica=nothing"}}) {
    const Program::Result refused = train(words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.errors, HasSubstr("a run to resume"));
    EXPECT_FALSE(fs::exists(folder_ / "out"));
    EXPECT_FALSE(fs::exists(folder_ / "nothing"));
  }
}

TEST_F(ReplicaProgram, TheReplicaServesTheOtherVerbs) {
  ASSERT_EQ(train({"--run.replica=copy"}).status, 0);
  EXPECT_EQ(accrue({"checkpoint", "verify", "copy"}).status, 0);
  EXPECT_EQ(accrue({"export", "copy", "--out", "exported"}).status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "exported/model.safetensors"));
  const Program::Result there = accrue({"train", "copy/config.toml", "--run.out=copy",
                                        "--run.replica=\"\"", "--run.steps=6", "--resume"});
  EXPECT_EQ(there.status, 0) << there.errors;
  EXPECT_TRUE(fs::exists(folder_ / "copy/checkpoints/step-00000006"));
}

TEST_F(ReplicaProgram, OneThatCannotBeWrittenIsToldOfAndTheRunIsAsEver) {
  write("file", "a user's");
  const Program::Result result = train({"--run.replica=file/copy"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("cannot be copied to file/copy"));
  ASSERT_EQ(train({"--run.out=undisturbed"}).status, 0);
  EXPECT_EQ(model_of("out", 4), model_of("undisturbed", 4));
  EXPECT_EQ(read_file(folder_ / "file"), "a user's");
}

TEST_F(ReplicaProgram, FoldersThatDoNotGoTogetherAreRefused) {
  ASSERT_EQ(train({"--run.out=other", "--run.replica=copy"}).status, 0);
  for (const char* replica : {"out", "out/copy", ".", "file", "copy"}) {
    write("file", "a user's");
    const Program::Result refused = train({"--run.replica=" + std::string(replica)});
    EXPECT_EQ(refused.status, 2) << replica << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr("run.replica")) << replica;
    EXPECT_FALSE(fs::exists(folder_ / "out")) << replica;
  }
  EXPECT_EQ(train({"--run.replica=out2"}).status, 0) << "the control";
}

}  // namespace
}  // namespace accrue::testing
