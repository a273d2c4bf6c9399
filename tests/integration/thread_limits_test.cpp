// Runs in which the system refuses to create threads.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "core/machine.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ThreadLimits : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  /// Runs the command line with at most so many threads, the first one included.
  Program::Result accrue_within(std::int64_t threads, const Words& arguments,
                                const Words& environment = {}) const {
    order(threads);
    Words words{"/usr/bin/env", std::string("LD_PRELOAD=") + ACCRUE_FAILING_CALLS_LIBRARY,
                "ACCRUE_FAILING_CALLS=" + page().string()};
    words.insert(words.end(), environment.begin(), environment.end());
    words.emplace_back(ACCRUE_PROGRAM);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return Program(folder_, words).wait();
  }

  /// The number of refused threads.
  std::int64_t refused() const {
    Orders orders{};
    std::ifstream(page(), std::ios::binary)
        .read(reinterpret_cast<char*>(orders.data()), sizeof orders);
    return orders[kNoThread].happened;
  }

  std::string model_of(const std::string& run) const {
    return read_file(folder_ / run / "checkpoints/step-00000004/model.safetensors");
  }
  std::string events_of(const std::string& run) const {
    return read_file(folder_ / run / "metrics.jsonl");
  }

 private:
  /// The values in tests/faults/failing_calls.cpp.
  struct Order {
    std::int64_t left, amount, happened;
  };
  static constexpr std::size_t kNoThread = 6;
  using Orders = std::array<Order, kNoThread + 1>;

  fs::path page() const { return folder_ / "orders"; }
  void order(std::int64_t threads) const {
    constexpr std::int64_t always = 1'000'000'000;
    Orders orders{};
    orders[kNoThread] = {.left = always, .amount = threads, .happened = 0};
    std::ofstream(page(), std::ios::binary)
        .write(reinterpret_cast<const char*>(orders.data()), sizeof orders);
  }
};

TEST_F(ThreadLimits, ARunWithoutHelperThreadsWritesAndReadsInPlace) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=free"}).status, 0);
  const auto result = accrue_within(1, {"train", "run.toml"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_GT(refused(), 0);
  EXPECT_TRUE(fs::exists(folder_ / "out/checkpoints/step-00000002"));
  EXPECT_TRUE(model_of("out") == model_of("free"));
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 0);
  for (const char* what : {"checkpoints are written by the thread that trains",
                           "samples are read by the thread that trains"}) {
    const std::string events = events_of("out");
    const std::size_t first = events.find(what);
    EXPECT_NE(first, std::string::npos) << events;
    EXPECT_EQ(events.find(what, first + 1), std::string::npos) << "reported once";
  }
  EXPECT_THAT(events_of("free"), Not(HasSubstr("by the thread that trains")));
}

TEST_F(ThreadLimits, AReplicaIsCopiedInPlace) {
  const auto result = accrue_within(1, {"train", "run.toml", "--run.replica=copy"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(model_of("copy") == model_of("out"));
  EXPECT_THAT(events_of("out"), HasSubstr("checkpoints are copied to copy by the thread"));
}

TEST_F(ThreadLimits, OuterStepsAreExchangedInPlace) {
  const Words outer{"train", "run.toml", "--dist.outer.parts=2", "--dist.outer.delay=1",
                    "--dist.local_steps=4"};
  Words free = outer;
  free.emplace_back("--run.out=free");
  ASSERT_EQ(accrue(free).status, 0);
  const auto result = accrue_within(1, outer);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(model_of("out") == model_of("free"));
  EXPECT_THAT(events_of("out"), HasSubstr("parts are exchanged by the thread that trains"));
}

/// Libraries may have threads, which count.
TEST_F(ThreadLimits, MoreThreadsThanStartAreRefusedBeforeAnythingIsWritten) {
  constexpr std::int64_t limit = 6;
  const auto result = accrue_within(limit, {"train", "run.toml", "--run.threads=16"});
  EXPECT_EQ(result.status, 2) << result.errors;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  std::smatch words;
  ASSERT_TRUE(std::regex_search(
      result.errors, words, std::regex("run.threads = 16: expected at most ([0-9]+), for which")))
      << result.errors;
  const std::string most = words[1];
  EXPECT_LE(std::stoll(most), limit);
  EXPECT_GT(std::stoll(most), 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("--run.threads=" + most), HasSubstr("pids.max")));
  const auto within = accrue_within(limit, {"train", "run.toml", "--run.threads=" + most});
  EXPECT_EQ(within.status, 0) << within.errors;
}

/// Within each limit a run trains or is refused: a library that is refused a thread ends the
/// process.
TEST_F(ThreadLimits, NoLimitEndsARunOfFewThreads) {
  constexpr std::int64_t enough = 8;
  std::vector<int> statuses;
  for (std::int64_t limit = 1; limit <= enough; ++limit) {
    const std::string out = "--run.out=within" + std::to_string(limit);
    const auto result = accrue_within(limit, {"train", "run.toml", "--run.threads=2", out});
    EXPECT_THAT(result.status, AnyOf(0, 2)) << limit << ": " << result.errors;
    statuses.push_back(result.status);
  }
  EXPECT_EQ(statuses.front(), 2);
  EXPECT_EQ(statuses.back(), 0);
}

TEST_F(ThreadLimits, ThreadsThatNobodyStatedAreAsManyAsStart) {
  const auto result = accrue_within(1, {"train", "run.toml", "--run.threads=0"});
  EXPECT_EQ(result.status, 0) << result.errors;
  const auto run = nlohmann::json::parse(read_file(folder_ / "out/run.json"));
  EXPECT_EQ(run.at("machine").at("threads"), 1);
  if (granted_threads() > 1) {
    EXPECT_THAT(events_of("out"), HasSubstr("threads that the machine grants"));
  }
}

TEST_F(ThreadLimits, OtherVerbsWorkWithOneThread) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=second"}).status, 0);
  const std::vector<Words> verbs{{"report", "out", "second", "--out", "page.html"},
                                 {"compare", "out", "second"},
                                 {"sample", "out", "--prompt", "the", "--tokens", "3"},
                                 {"eval", "out", "--data", "text.txt"},
                                 {"export", "out", "--out", "exported"},
                                 {"data", "run.toml"},
                                 {"plan", "run.toml"},
                                 {"doctor", "run.toml"},
                                 {"verify", "run.toml"},
                                 {"checkpoint", "verify", "out"}};
  std::int64_t all_refused = 0;
  for (const Words& verb : verbs) {
    const int status = accrue(verb).status;
    fs::remove_all(folder_ / "exported");
    EXPECT_EQ(accrue_within(1, verb).status, status) << verb.front();
    all_refused += refused();
  }
  EXPECT_GT(all_refused, 0);
}

TEST_F(ThreadLimits, RanksSayThatTheyNeedThreads) {
  const auto verified = accrue_within(1, {"verify", "run.toml", "--ranks", "2"});
  EXPECT_EQ(verified.status, 1) << verified.errors;
  EXPECT_THAT(verified.errors, HasSubstr("expected a thread for each of 2 ranks"));
}

}  // namespace
}  // namespace accrue::testing
