// Runs whose state lies in a file, killed and refused by the disk while parts of it are underway.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "faulty_program.h"
#include "offloadable_run.h"
#include "support/skip.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kKilled = 128 + SIGKILL;

/// The points at which parts of the state are underway: in the thread that moves them, in a segment
/// that uses them, and in the step that changes them.
const std::vector<std::string> kPoints{"offload:read",    "offload:write",    "offload:take-out",
                                       "segment:forward", "segment:backward", "optimizer:piece"};

class OffloadFaults : public FaultyProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write("text.txt", offloadable_text());
    write("run.toml", kOffloadableRun);
    // Not the temporary folder, which may lie in memory.
    disk_ = std::filesystem::current_path() / folder_.filename();
    std::filesystem::create_directory(disk_);
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(disk_)) << "something was left in it";
    std::filesystem::remove_all(disk_);
    AccrueProgram::TearDown();
  }

  /// A budget makes all state leave memory before each step.
  Words training(const std::string& out, const Words& more = {}) const {
    Words words{"train",
                "run.toml",
                "--run.out=" + out,
                "--run.checkpoint_every=1",
                "--memory.budget=4GiB",
                "--memory.offload=" + disk_.string()};
    if (std::filesystem::exists(folder_ / out / "config.toml")) words.emplace_back("--resume");
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Trains in `out`, or continues there, to the end. Returns the model and the optimizer's state.
  std::string trained(const std::string& out) const {
    const auto result = accrue(training(out));
    EXPECT_EQ(result.status, 0) << out << ": " << result.errors;
    return state_of(out);
  }

  std::string state_of(const std::string& out) const {
    std::string state;
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      std::ifstream file(folder_ / out / "checkpoints" / "step-00000003" / name, std::ios::binary);
      EXPECT_TRUE(file) << out << "/" << name;
      state.append(std::istreambuf_iterator<char>(file), {});
    }
    return state;
  }

  /// The lines of metrics.jsonl that have `field`.
  std::vector<nlohmann::json> lines_with(const std::string& out, const std::string& field) const {
    std::vector<nlohmann::json> lines;
    std::ifstream metrics(folder_ / out / "metrics.jsonl");
    for (std::string line; std::getline(metrics, line);)
      if (nlohmann::json parsed = nlohmann::json::parse(line); parsed.contains(field))
        lines.push_back(std::move(parsed));
    return lines;
  }

  /// The reasons of the events of this name.
  std::vector<std::string> events(const std::string& out, const std::string& name) const {
    std::vector<std::string> reasons;
    for (const nlohmann::json& line : lines_with(out, "event"))
      if (line["event"] == name) reasons.push_back(line["reason"]);
    return reasons;
  }

  std::filesystem::path disk_;
};

TEST_F(OffloadFaults, KilledWhilePartsAreUnderwayARunResumesToTheSameBits) {
  const std::string whole = trained("whole");
  for (std::size_t i = 0; i < kPoints.size(); ++i) {
    const std::string out = "killed" + std::to_string(i);
    const auto killed =
        accrue_with({{.at = kPoints[i], .action = "kill", .step = 2}}, training(out));
    EXPECT_EQ(killed.status, kKilled) << kPoints[i] << ": " << killed.errors;
    EXPECT_TRUE(std::filesystem::is_empty(disk_)) << kPoints[i];
    EXPECT_TRUE(trained(out) == whole) << kPoints[i];
  }
}

TEST_F(OffloadFaults, KilledBeforeItsFirstStepARunBeginsAgain) {
  const std::string whole = trained("whole");
  const auto killed =
      accrue_with({{.at = "offload:reserve", .action = "kill", .count = 3}}, training("killed"));
  EXPECT_EQ(killed.status, kKilled) << killed.errors;
  EXPECT_TRUE(std::filesystem::is_empty(disk_));
  EXPECT_TRUE(trained("killed") == whole);
  EXPECT_FALSE(state_of("killed").empty());
}

/// A call that the disk refuses, and what the error says of it.
struct Refused {
  std::string at, action, reason;
};

TEST_F(OffloadFaults, ADiskThatRefusesEndsTheRunByNameAndNothingIsLost) {
  const std::string whole = trained("whole");
  const std::vector<Refused> calls{
      {"offload:read", "fail:madvise:EFAULT", "reading failed: Input/output error"},
      {"offload:write", "fail:sync_file_range:EIO", "writing failed: Input/output error"},
      {"offload:take-out", "fail:sync_file_range:EIO", "writing failed: Input/output error"},
      {"offload:take-out", "fail:sync_file_range:ENOSPC",
       "writing failed: No space left on device"}};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Refused& call = calls[i];
    const std::string out = "refused" + std::to_string(i);
    const auto ended =
        accrue_with({{.at = call.at, .action = call.action, .step = 2}}, training(out));
    EXPECT_EQ(ended.status, 1) << call.at << ": " << ended.errors;
    for (const std::string& part : {std::string("memory.offload"), disk_.string(), call.reason,
                                    std::string("--resume from the last checkpoint")})
      EXPECT_THAT(ended.errors, HasSubstr(part)) << call.at;
    EXPECT_FALSE(checkpoints_of(out).empty()) << call.at;
    EXPECT_TRUE(trained(out) == whole) << call.at;
  }
}

TEST_F(OffloadFaults, ADiskWithoutRoomRefusesTheStateBeforeTheFirstStep) {
  const auto refused =
      accrue_with({{.at = "offload:reserve", .action = "fail:posix_fallocate:ENOSPC", .count = 3}},
                  training("run"));
  EXPECT_EQ(refused.status, 1) << refused.errors;
  EXPECT_THAT(refused.errors, HasSubstr("more on the disk of " + disk_.string()));
  EXPECT_THAT(refused.errors, HasSubstr("No space left on device after "));
  EXPECT_TRUE(trained("run") == trained("whole"));
}

/// The clock jumps while the first part of the second step is read: an embedding of 8 MiB, which is
/// large enough to be judged.
TEST_F(OffloadFaults, ASlowDiskIsWaitedForAndReportedWithTheSameBits) {
  const Words large{"--model.vocab=16384"};
  const auto whole = accrue(training("whole", large));
  ASSERT_EQ(whole.status, 0) << whole.errors;
  const auto slow = accrue_with({{.at = "offload:read", .action = "clock:30", .step = 2}},
                                training("slow", large));
  ASSERT_EQ(slow.status, 0) << slow.errors;
  EXPECT_TRUE(state_of("slow") == state_of("whole"));
  const auto longest_wait = [&](const std::string& out) {
    double longest = 0;
    for (const nlohmann::json& step : lines_with(out, "offload_wait_seconds"))
      longest = std::max(longest, step["offload_wait_seconds"].get<double>());
    return longest;
  };
  EXPECT_GE(longest_wait("slow"), 30);
  EXPECT_LT(longest_wait("whole"), 30) << "the control: no jump, no wait";
  if (lines_with("slow", "offload_read_bytes").empty())
    return not_possible_here("no count of reads");
  const std::vector<std::string> told = events("slow", "slow_disk");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told.front(), HasSubstr(disk_.string() + " read the state at"));
}

}  // namespace
}  // namespace accrue::testing
