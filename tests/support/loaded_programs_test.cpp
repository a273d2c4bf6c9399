#include "support/loaded_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class StartsOfAProgram : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The program that tells what it was started with. `OMP_NUM_THREADS` and a variable of the test
  /// come before `variables`: the first start of each test is the first one with its variables.
  Program start(const Words& variables, const Words& arguments) const {
    Words words{"/usr/bin/env", "OMP_NUM_THREADS=1", "TEST=" + std::to_string(test_)};
    for (const Words& part : {variables, Words{program_}, arguments})
      words.insert(words.end(), part.begin(), part.end());
    return {folder_, words};
  }
  Program::Result told(const Words& variables, const Words& arguments) const {
    return start(variables, arguments).wait();
  }
  /// Which load of the program a start is from.
  static std::string load_of(const Program::Result& result) {
    return result.output.substr(0, result.output.find('\n'));
  }

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
}

TEST_F(StartsOfAProgram, HaveWhatTheyState) {
  for (const char* rank : {"0", "1", "2"}) {
    const Program::Result result =
        told({std::string("RANK=") + rank}, {std::string(rank), "a b", ""});
    EXPECT_EQ(result.status, std::stoi(rank));
    EXPECT_EQ(result.errors, "an error\n");
    EXPECT_EQ(result.output.substr(result.output.find('\n') + 1),
              "parent " + std::to_string(::getpid()) + "\nfolder " + folder_.string() + "\nword " +
                  program_ + "\nword " + rank + "\nword a b\nword \nRANK " + rank +
                  "\nOMP_NUM_THREADS 1\n");
  }
  EXPECT_THAT(told({}, {"0"}).output, Not(HasSubstr("RANK")));
}

TEST_F(StartsOfAProgram, LoadItAnewForVariablesThatLibrariesRead) {
  for (int i = 0; i < 2; ++i)
    for (const char* threads : {"1", "2"}) told({std::string("OMP_NUM_THREADS=") + threads}, {"0"});
  const Program::Result one = told({"OMP_NUM_THREADS=1"}, {"0"}),
                        two = told({"OMP_NUM_THREADS=2"}, {"0"});
  EXPECT_THAT(one.output, HasSubstr("OMP_NUM_THREADS 1"));
  EXPECT_THAT(two.output, HasSubstr("OMP_NUM_THREADS 2"));
  EXPECT_NE(load_of(one), load_of(two));
}

TEST_F(StartsOfAProgram, OfTheSystemAreAsTheyAre) {
  for (int i = 0; i < 3; ++i) {
    const Program::Result result = Program(folder_, {"/usr/bin/env"}).wait();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output, Not(HasSubstr("libloaded_program")));
  }
}

TEST_F(StartsOfAProgram, EndByTheSignalsThatTestsSend) {
  for (const int signal : {SIGTERM, SIGKILL, SIGTERM}) {
    Program program = start({}, {"wait"});
    ::kill(program.process(), signal);
    EXPECT_EQ(program.wait().status, 128 + signal);
  }
}

}  // namespace
}  // namespace accrue::testing
