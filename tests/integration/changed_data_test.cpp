// Data that are wrong, or changed since a run.
#include <gmock/gmock.h>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "support/killed_run.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ChangedData : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }
  void write_byte(std::uintmax_t at) const {
    std::fstream file(folder_ / "text.txt", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << '#';
  }
};

TEST_F(ChangedData, AWrongTokenAnywhereIsRefusedBeforeAnythingIsWritten) {
  std::string tokens(40'000, '\1');
  tokens.replace(39'000, 2, "\xff\xff");
  write("tokens.bin", tokens);
  const auto train = [&] {
    return accrue({"train", "run.toml", "--data.train=[\"tokens.bin\"]", "--model.vocab=300"});
  };
  const Program::Result result = train();
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("id 65535 at token 19500"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  tokens.replace(39'000, 2, "\1\1");
  write("tokens.bin", tokens);
  EXPECT_EQ(train().status, 0);
}

TEST_F(ChangedData, IsAcceptedByNameWhereItHoldsAsManySamples) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  write_byte(fs::file_size(folder_ / "text.txt") / 2);
  const Program::Result refused = accrue({"train", "run.toml", "--resume", "2"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("--accept-data"));
  const Program::Result accepted = accrue({"train", "run.toml", "--resume", "2", "--accept-data"});
  EXPECT_EQ(accepted.status, 0) << accepted.errors;
  EXPECT_THAT(read_file(folder_ / "out/metrics.jsonl"), HasSubstr("accepted by --accept-data"));
  EXPECT_EQ(accrue({"train", "run.toml", "--resume"}).status, 0)
      << "these are its data from now on";

  std::ofstream(folder_ / "text.txt", std::ios::app) << std::string(200, 'x');
  const Program::Result longer = accrue({"train", "run.toml", "--resume", "--accept-data"});
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.errors, HasSubstr("held out, as before"));
  EXPECT_EQ(accrue({"train", "run.toml", "--accept-data"}).status, 2) << "it goes with --resume";
}

class MovedData : public ChangedData {
 protected:
  /// Writes this content as the text in another folder; returns the override for it.
  std::string moved(const std::string& content) const {
    fs::create_directories(folder_ / "scratch/job 17");
    write("scratch/job 17/text.txt", content);
    return "--data.train=[\"scratch/job 17/*.txt\"]";
  }
  std::string model_of(const std::string& run, const std::string& step) const {
    return read_file(folder_ / run / "checkpoints" / step / "model.safetensors");
  }
};

TEST_F(MovedData, IsTheSameOnResumeToTheBit) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  const std::string straight = model_of("out", "step-00000004");
  const std::string elsewhere = moved(read_file(folder_ / "text.txt"));
  fs::rename(folder_ / "text.txt", folder_ / "gone");
  const auto resumed = accrue({"train", "run.toml", "--resume", "2", elsewhere});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(resumed.errors, HasSubstr("the same data as before lie elsewhere: data.train"));
  EXPECT_TRUE(model_of("out", "step-00000004") == straight);
  EXPECT_EQ(accrue({"train", "out/config.toml", "--resume", "--run.steps=5"}).status, 0)
      << "the run's config has the new path";
}

TEST_F(MovedData, OfOtherContentAreRefused) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  std::string content = read_file(folder_ / "text.txt");
  content[content.size() / 2] ^= 1;
  const std::string elsewhere = moved(content);
  const Words resume{"train", "run.toml", "--resume", "2", elsewhere};
  const auto refused = accrue(resume);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("other data"));
  Words accept = resume;
  accept.emplace_back("--accept-data");
  EXPECT_EQ(accrue(accept).status, 0) << "as many samples";
}

TEST_F(MovedData, OfARunWithoutACheckpointAreComparedAsWell) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  accrue::testing::leave_as_killed_at_start(folder_ / "out");
  const Words resume{"train", "run.toml", "--resume", moved("other words in another text\n")};
  const auto refused = accrue(resume);
  EXPECT_EQ(refused.status, 2) << refused.errors;
  moved(read_file(folder_ / "text.txt"));
  const auto begun = accrue(resume);
  EXPECT_EQ(begun.status, 0) << begun.errors;
}

TEST_F(MovedData, AreRepeatedByThePlanAndTheBitsOfBefore) {
  const std::string fixed = "--precision.accumulate=fixed";
  ASSERT_EQ(accrue({"train", "run.toml", fixed}).status, 0);
  const auto again = accrue(
      {"train", "--repeat", "out", "--run.out=again", moved(read_file(folder_ / "text.txt"))});
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_THAT(again.errors, HasSubstr("by the plan that it had"));
  EXPECT_THAT(again.errors, HasSubstr("the same bits are to be expected"));
  EXPECT_TRUE(model_of("again", "step-00000004") == model_of("out", "step-00000004"));
}

}  // namespace
}  // namespace accrue::testing
