// The program's outputs: files and streams of others, full or closed ones.
#include <gmock/gmock.h>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Outputs : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  /// `words` as a shell reads them, redirections included; "accrue" is the program.
  Program::Result shell(const std::string& words) const {
    const std::string function = "accrue() { '" ACCRUE_PROGRAM "' \"$@\"; }; ";
    return Program(folder_, {"/bin/bash", "-c", function + words}).wait();
  }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(Outputs, ATraceReplacesNothingAndNothingStarts) {
  write("notes", "mine");
  fs::create_symlink("notes", folder_ / "link");
  for (const char* taken : {"notes", "link", ".", "/dev/null"}) {
    const auto result = accrue({"train", "run.toml", "--trace", taken});
    EXPECT_EQ(result.status, 2) << taken;
    EXPECT_THAT(result.errors, StartsWith("error: trace into " + std::string(taken)));
  }
  EXPECT_EQ(content("notes"), "mine");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Outputs, ATraceOfARefusedRunIsTakenBack) {
  EXPECT_EQ(accrue({"train", "run.toml", "--trace", "trace.json", "--data.train=none"}).status, 2);
  EXPECT_FALSE(fs::exists(folder_ / "trace.json"));
  EXPECT_EQ(accrue({"train", "run.toml", "--trace", "trace.json"}).status, 0);
  EXPECT_THAT(content("trace.json"), HasSubstr("optimizer step"));
}

TEST_F(Outputs, AnExportReplacesNothing) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  write("notes", "mine");
  fs::create_symlink("notes", folder_ / "link");
  fs::create_directory(folder_ / "full");
  write("full/README.md", "mine");
  fs::create_directory(folder_ / "linked");
  fs::create_symlink("../nowhere", folder_ / "linked" / "tokenizer.json");
  for (const char* taken : {"notes", "link", "full", "linked"}) {
    const auto result = accrue({"export", "out", "--out", taken});
    EXPECT_EQ(result.status, 2) << taken;
    EXPECT_THAT(result.errors, StartsWith("error: "));
    EXPECT_THAT(result.errors, HasSubstr(taken));
    EXPECT_EQ(result.output, "");
  }
  EXPECT_EQ(content("notes"), "mine");
  EXPECT_EQ(content("full/README.md"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "full"), {}), 1);
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
}

TEST_F(Outputs, AFullDiskUnderStandardOutputIsAnError) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  for (const char* words :
       {"--version", "--help", "train --help", "train run.toml --dry-run --resume",
        "plan run.toml --json", "plan run.toml --estimate --model.vocab=256",
        "verify run.toml --json", "doctor run.toml", "bench run.toml --json --rounds=1",
        "sample out --prompt a --tokens 2", "export out --out m",
        "train run.toml --run.out=second"}) {
    const auto result = shell("accrue " + std::string(words) + " > /dev/full");
    EXPECT_EQ(result.status, 1) << words << ": " << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("error: write to standard output")) << words;
  }
  EXPECT_TRUE(fs::exists(folder_ / "second" / "checkpoints")) << "what was done stays";
}

TEST_F(Outputs, AnotherStatusIsKeptWhereStandardOutputIsFull) {
  const auto result = shell("accrue train nowhere.toml > /dev/full");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("nowhere.toml"));
}

TEST_F(Outputs, AClosedPipeIsNoError) {
  const auto result = shell("accrue --help | true; echo ${PIPESTATUS[0]}");
  EXPECT_EQ(result.output, "0\n") << result.errors;
  EXPECT_EQ(result.errors, "");
}

TEST_F(Outputs, AClosedStreamIsAnErrorAndNothingIsPrintedIntoAFile) {
  const auto result = shell("accrue train run.toml >&- 2>/dev/null");
  EXPECT_EQ(result.status, 1);
  const std::string metrics = content("out/metrics.jsonl");
  EXPECT_THAT(metrics, StartsWith("{"));
  for (const char* row : {"metrics ", "checkpoint "}) EXPECT_THAT(metrics, Not(HasSubstr(row)));
}

}  // namespace
}  // namespace accrue::testing
