#include "support/started_once.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/environment.h"
#include "support/run_program.h"

namespace accrue::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class StartsOfAProgram : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The program that tells what it was started with. `variables` come after one that libraries
  /// read and that is this test's alone: its first start is the first one in its environment.
  Program start(const Words& variables, const Words& arguments, Load load = Load::once) const {
    Words words{"/usr/bin/env", "GOMP_TEST=" + std::to_string(test_)};
    for (const Words& part : {variables, Words{program_}, arguments})
      words.insert(words.end(), part.begin(), part.end());
    return {folder_, words, load};
  }
  Program::Result told(const Words& variables, const Words& arguments,
                       Load load = Load::once) const {
    return start(variables, arguments, load).wait();
  }

  /// What the program says of `name`.
  static Words all(const Program::Result& result, const std::string& name) {
    Words found;
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(name + " ") || line == name)
        found.push_back(line.substr(std::min(line.size(), name.size() + 1)));
    return found;
  }
  static std::string one(const Program::Result& result, const std::string& name) {
    const Words found = all(result, name);
    return found.size() == 1 ? found.front() : "not one " + name + ": " + result.output;
  }
  static std::string load_of(const Program::Result& result) { return one(result, "loaded"); }

  static inline int tests_ = 0;
  const int test_ = ++tests_;
  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ("accrue starts of a program " + std::to_string(::getpid()));
  const std::string program_ =
      std::filesystem::read_symlink("/proc/self/exe").replace_filename("telling_program").string();
};

TEST_F(StartsOfAProgram, LoadItOnceAfterTheFirst) {
  const Program::Result first = told({"RANK=0"}, {"0"}), second = told({"RANK=1"}, {"3", "a b"}),
                        third = told({}, {"4"});
  EXPECT_NE(load_of(first), load_of(second)) << "the first one is as a user's";
  EXPECT_EQ(load_of(second), load_of(third));
  EXPECT_NE(one(second, "process"), one(third, "process"));
}

TEST_F(StartsOfAProgram, HaveWhatTheyState) {
  for (const char* rank : {"0", "1", "2"}) {
    std::filesystem::create_directories(folder_ / rank);
    Words words{"/usr/bin/env", "GOMP_TEST=" + std::to_string(test_), std::string("RANK=") + rank,
                "LINES=a\nb"};
    words.insert(words.end(), {program_, rank, "a b", ""});
    Program program(folder_ / rank, words);
    const std::string process = std::to_string(program.process());
    const Program::Result result = program.wait();
    EXPECT_EQ(result.status, std::stoi(rank));
    EXPECT_EQ(result.errors, "an error\n");
    EXPECT_EQ(one(result, "process"), process);
    EXPECT_EQ(one(result, "parent"), std::to_string(::getpid()));
    EXPECT_EQ(one(result, "program"), program_);
    EXPECT_EQ(one(result, "folder"), (folder_ / rank).string());
    EXPECT_THAT(all(result, "word"), ElementsAre(program_, rank, "a b", ""));
    EXPECT_THAT(all(result, "variable"), Contains(std::string("RANK=") + rank));
    EXPECT_THAT(result.output, HasSubstr("variable LINES=a\nb\n"));
    EXPECT_THAT(all(result, "variable"), Contains("GOMP_ADDED=1")) << "by the program itself";
  }
}

/// One started anew is the reference: all that the others say is the same, except for what a test
/// holds open.
TEST_F(StartsOfAProgram, AreNotDistinguishable) {
  const EnvironmentVariable of_the_test("PLANTED", "here");
  const auto without_load = [](const Program::Result& result) {
    std::multiset<std::string> lines;
    std::istringstream output(result.output);
    for (std::string line; std::getline(output, line);)
      if (!line.starts_with("loaded ") && !line.starts_with("process ") &&
          !line.starts_with("descriptors") && !line.starts_with("variable _="))
        lines.insert(line);
    return lines;
  };
  const Words variables{"RANK=1"}, arguments{"0", "x"};
  const Program::Result first = told(variables, arguments), second = told(variables, arguments),
                        anew = told(variables, arguments, Load::anew);
  EXPECT_NE(load_of(second), load_of(anew));
  EXPECT_EQ(without_load(second), without_load(anew));
  EXPECT_EQ(without_load(first), without_load(anew));
  // The control: another variable, folder or word is seen.
  EXPECT_NE(without_load(told({"RANK=2"}, arguments)), without_load(anew));
  EXPECT_NE(without_load(told(variables, {"0"})), without_load(anew));
}

TEST_F(StartsOfAProgram, HoldNothingOpenThatTheTestDoes) {
  // As a port that a test has reserved, if it is passed to all that it starts.
  const int held = ::open("/", O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 2; ++i) told({}, {"0"});
  Program running = start({}, {"wait"});
  EXPECT_EQ(one(told({}, {"0"}), "descriptors"), "") << "while another one runs";
  EXPECT_THAT(one(told({}, {"0"}, Load::anew), "descriptors"), Not(::testing::IsEmpty()));
  ::close(held);
}

TEST_F(StartsOfAProgram, LoadItAnewForVariablesThatLibrariesRead) {
  for (int i = 0; i < 2; ++i)
    for (const char* threads : {"1", "2"}) told({std::string("OMP_NUM_THREADS=") + threads}, {"0"});
  const Program::Result one = told({"OMP_NUM_THREADS=1"}, {"0"}),
                        two = told({"OMP_NUM_THREADS=2"}, {"0"});
  EXPECT_THAT(all(one, "variable"), Contains("OMP_NUM_THREADS=1"));
  EXPECT_THAT(all(two, "variable"), Contains("OMP_NUM_THREADS=2"));
  EXPECT_NE(load_of(one), load_of(two));
}

TEST_F(StartsOfAProgram, AreAnewIfTheyAreAboutTheLoadOrItsMemory) {
  std::set<std::string> loads;
  int starts = 0;
  const auto count = [&](const Words& variables, const Words& arguments, Load load) {
    for (int i = 0; i < 3; ++i, ++starts) loads.insert(load_of(told(variables, arguments, load)));
  };
  count({"ACCRUE_FAULT=at=micro-batch do=kill; at=load do=TERM count=1"}, {"0"}, Load::once);
  count({"OMP_DISPLAY_ENV=verbose"}, {"0"}, Load::once);
  count({"LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6"}, {"0"}, Load::once);
  count({}, {"0", "--memory.budget=1GiB"}, Load::once);
  count({}, {"0"}, Load::anew);
  EXPECT_EQ(loads.size(), static_cast<std::size_t>(starts));
  constexpr long none = std::numeric_limits<long>::max();
  EXPECT_LT(told({}, {"0"}, Load::anew).peak_resident_kibibytes, none);
  told({}, {"0", "--memory.budget=none"});
  EXPECT_EQ(told({}, {"0", "--memory.budget=none"}).peak_resident_kibibytes, none);
}

TEST_F(StartsOfAProgram, OfTheSystemAreAsTheyAre) {
  for (int i = 0; i < 3; ++i) {
    const Program::Result result = Program(folder_, {"/usr/bin/env"}).wait();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output, Not(HasSubstr("libstarted_once")));
  }
}

TEST_F(StartsOfAProgram, EndByTheSignalsThatTestsSend) {
  for (const int signal : {SIGTERM, SIGKILL, SIGTERM}) {
    Program program = start({}, {"wait"});
    ::kill(program.process(), signal);
    EXPECT_EQ(program.wait().status, 128 + signal);
  }
}

TEST_F(StartsOfAProgram, EndWithTheTest) {
  pid_t process = 0;
  for (int i = 0; i < 2; ++i) {
    const Program program = start({}, {"wait"});
    process = program.process();
  }
  EXPECT_EQ(::kill(process, 0), -1);
}

}  // namespace
}  // namespace accrue::testing
