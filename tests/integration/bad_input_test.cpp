// Mistakes of users, seen from outside: one clear line, exit code 2, and nothing written.
#include <gmock/gmock.h>

#include <fstream>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class BadInput : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  /// Expects `arguments` to be refused with `part` in the message and no run directory left.
  void expect_refused(const Words& arguments, const std::string& part,
                      const std::string& config = "run.toml") const {
    Words words{"train", config};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 2) << part << "\n" << result.errors;
    EXPECT_THAT(result.errors, StartsWith("error: "));
    EXPECT_THAT(result.errors, HasSubstr(part));
    EXPECT_THAT(result.errors, HasSubstr("; try "));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out")) << part;
  }
};

TEST_F(BadInput, InTheConfig) {
  expect_refused({"--optim.lrr=1"}, "lr");
  expect_refused({"--optim.lr=fast"}, "optim.lr");
  expect_refused({"--optim.clip=-1"}, "optim.clip");
  expect_refused({"--batch.tokens=250"}, "240");
  expect_refused({"--batch.tokens=8"}, "16");
}

TEST_F(BadInput, InTheData) {
  expect_refused({"--data.train=[\"none/*.txt\"]"}, "none/*.txt");
  write("empty.bin", "");
  expect_refused({"--data.train=[\"empty.bin\"]", "--model.vocab=50"}, "empty.bin");
  write("odd.bin", std::string(1001, '\1'));
  expect_refused({"--data.train=[\"odd.bin\"]", "--model.vocab=50"}, "odd.bin");
  write("short.txt", "too short");
  expect_refused({"--data.train=[\"short.txt\"]"}, "data.train");
}

TEST_F(BadInput, InTheModelFolder) {
  std::filesystem::create_directories(folder_ / "base");
  write("from.toml",
        "[run]\nout = \"out\"\nsteps = 4\n[model]\nfrom = \"base\"\n"
        "[data]\ntrain = [\"text.txt\"]\n[batch]\nsamples = 4\n");
  expect_refused({}, "base/config.json", "from.toml");
  write("base/config.json", "{\"model_type\": \"gpt2\", \"n_embd\":");
  expect_refused({}, "base/config.json", "from.toml");
}

TEST_F(BadInput, InTheRunDirectory) {
  const auto result = accrue({"train", "run.toml", "--run.out=/proc/accrue/run"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("/proc/accrue/run"));
}

TEST_F(BadInput, OnResumeLosesNothing) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  const auto other_model = accrue({"train", "run.toml", "--resume", "--optim.lr=1e-3"});
  EXPECT_EQ(other_model.status, 2);
  EXPECT_THAT(other_model.errors, HasSubstr("optim.lr"));
  write("text.txt", std::string(9000, 'x'));
  const auto other_data = accrue({"train", "run.toml", "--resume"});
  EXPECT_EQ(other_data.status, 2);
  EXPECT_THAT(other_data.errors, HasSubstr("data"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/checkpoints/step-00000004/model.safetensors"));
}

}  // namespace
}  // namespace accrue::testing
