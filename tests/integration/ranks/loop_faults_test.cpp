// Users' loops on two ranks whose clocks run ahead, or of which one is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "distributed/ranks.h"
#include "support/faults.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

/// The results of two ranks of loop_program.cpp.
std::vector<Program::Result> run_loop(const std::vector<std::string>& words,
                                      const FaultsOfRanks& faults = {}) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      ("accrue_loop_faults " + words.front() + ' ' + std::to_string(::getpid()));
  auto results = run_ranks(folder, 2, 2, [&](int rank) {
    std::vector<std::string> command{ACCRUE_LOOP_PROGRAM};
    command.insert(command.end(), words.begin(), words.end());
    return with_faults(faults, rank, folder, command);
  });
  std::filesystem::remove_all(folder);
  return results;
}

TEST(LoopFaults, ASlowRankHasTheShareOfItsSpeed) {
  const auto takes = [](const char* seconds) -> std::vector<Fault> {
    return {{.at = "sample", .action = std::string("clock:") + seconds, .count = 0}};
  };
  // All samples of a rank together stay within the group's timeout, also by its clock.
  const std::vector<Program::Result> ranks =
      run_loop({"shares", "1", "nothing"}, {{0, takes("0.2")}, {1, takes("0.8")}});
  for (const Program::Result& rank : ranks) EXPECT_EQ(rank.status, 0) << rank.errors;
  Numbers first = numbers_of(ranks.front().output), second = numbers_of(ranks.back().output);
  EXPECT_EQ(first["parameters"], second["parameters"]);
  const std::vector<double>& share = first["share"];
  EXPECT_EQ(share.at(1), 12) << "equal before speeds are known";
  EXPECT_NEAR(share.back(), 23 * 4.0 / 5, 1) << "the other rank takes four times as long";
}

TEST(LoopFaults, ARankThatDiesIsNamed) {
  const std::vector<Program::Result> ranks = run_loop({"accumulate", "2", "killed"});
  EXPECT_EQ(ranks[1].status, 128 + SIGKILL);
  EXPECT_EQ(ranks[0].status, 1);
  EXPECT_THAT(ranks[0].errors, HasSubstr("no sign of life from rank 1"));
}

}  // namespace
}  // namespace accrue::testing
