// data.train = ["-"]: data that a program or a file supplies on the standard input.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class StandardInput : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  /// Runs the command line with `file` as its standard input.
  Program::Result fed(const std::string& file, const Words& arguments) const {
    Words words{"/bin/sh", "-c", "exec \"$0\" \"$@\" <'" + file + "'", ACCRUE_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return Program(folder_, std::move(words)).wait();
  }
  Program::Result train(const std::string& file, const Words& more = {}) const {
    Words words{"train", "run.toml", "--data.train=-"};
    words.insert(words.end(), more.begin(), more.end());
    return fed(file, words);
  }

  std::vector<double> losses_of(const std::string& run) const {
    std::vector<double> losses;
    std::istringstream lines(read_file(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const json step = json::parse(line); step.contains("loss"))
        losses.push_back(step["loss"]);
    return losses;
  }
  std::string kept_input(const std::string& run, const std::string& name) const {
    return read_file(folder_ / ".accrue-input" / run / name);
  }
};

TEST_F(StandardInput, IsTrainedOnAsTheFileItIs) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=file"}).status, 0);
  const auto result = train("text.txt");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(losses_of("out"), SizeIs(4));
  EXPECT_EQ(losses_of("out"), losses_of("file"));
  EXPECT_EQ(kept_input("out", "standard-input.txt"), read_file(folder_ / "text.txt"));
}

TEST_F(StandardInput, IsNotKeptThroughALink) {
  std::filesystem::create_directories(folder_ / ".accrue-input");
  std::filesystem::create_directories(folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", folder_ / ".accrue-input/out");
  const auto refused = train("text.txt");
  EXPECT_EQ(refused.status, 2) << refused.errors;
  EXPECT_THAT(refused.errors, AllOf(HasSubstr(".accrue-input/out"), HasSubstr("elsewhere")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "elsewhere"));
}

TEST_F(StandardInput, IsFoundAgainWhereARunIsResumed) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=file", "--run.steps=3"}).status, 0);
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=file", "--run.steps=6", "--resume"}).status, 0);
  ASSERT_EQ(train("text.txt", {"--run.steps=3"}).status, 0);
  const auto result = train("/dev/null", {"--run.steps=6", "--resume"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(losses_of("out"), SizeIs(6));
  EXPECT_EQ(losses_of("out"), losses_of("file"));
}

TEST_F(StandardInput, IsGivenToARepetition) {
  ASSERT_EQ(train("text.txt").status, 0);
  const auto result =
      fed(".accrue-input/out/standard-input.txt", {"train", "--repeat", "out", "--run.out=again"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(losses_of("again"), losses_of("out"));
  write("other.txt", std::string(4096, 'x'));
  EXPECT_EQ(fed("other.txt", {"train", "--repeat", "out", "--run.out=other"}).status, 2);
}

TEST_F(StandardInput, MayBeLinesOfJson) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "\n{\"text\": \"line " + std::to_string(i) + "\"}\n";
  write("lines", lines);
  const auto result = train("lines");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(kept_input("out", "standard-input.jsonl"), lines);
}

TEST_F(StandardInput, IsASourceWithAWeight) {
  const auto result = fed("text.txt", {"train", "run.toml",
                                       "--data.train=[{path = \"-\", weight = 3}, "
                                       "{path = \"text.txt\", weight = 1}]"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(losses_of("out"), SizeIs(4));
}

TEST_F(StandardInput, IsEnoughToTrainOn) {
  const Words words{
      "train",           "--data.train=-", "--run.steps=2", "--model.layers=1", "--model.width=32",
      "--model.heads=2", "--run.threads=1"};
  const auto result = fed("text.txt", words);
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(losses_of("runs/first"), SizeIs(2));
  Words longer = words;
  longer[2] = "--run.steps=3";
  longer.push_back("--resume");
  const auto resumed = fed("/dev/null", longer);
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(losses_of("runs/first"), SizeIs(3));
}

TEST_F(StandardInput, ThatIsNoneIsRefused) {
  const auto refused = [&](const std::string& file, const Words& more, const std::string& words) {
    const auto result = train(file, more);
    EXPECT_EQ(result.status, 2) << file;
    EXPECT_THAT(result.errors, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  };
  refused("/dev/null", {}, "it is empty");
  refused(".", {}, "s a directory");
  refused("text.txt", {"--data.train=[\"-\", \"-\"]"}, "more than once");
  refused("text.txt", {"--data.val=-", "--data.val_fraction=0"}, "data.train alone can name");
  refused("text.txt", {"--data.format=tokens"}, "data.format");
  write("long", "{" + std::string(std::size_t{2} << 20, 'x'));
  refused("long", {}, "more than 1 MiB");
  write("document", "[\n {\"text\": \"a\"}\n]\n");
  refused("document", {}, "JSON that is no object per line");
}

TEST_F(StandardInput, OfATerminalIsNotWaitedFor) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0)
    GTEST_FAIL() << "no pseudoterminal can be made";
  const auto result = train(::ptsname(terminal));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("a terminal"), HasSubstr("<FILE")));
  ::close(terminal);
}

}  // namespace
}  // namespace accrue::testing
