// Windows that ranks share, and that stop in the middle: processes, and signals at named
// points.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "accrue/models/safetensors.h"
#include "integration/ranks/faulty_ranks.h"
#include "train/checkpoint/manifest.h"
#include "train/recorder.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::Pause;
using accrue::testing::Program;
using accrue::testing::wait_until;
using nlohmann::json;
using testing::Fault;
using testing::kInterrupted;
using testing::Words;

/// Windows of 48 micro-batches.
class KeptWindowOfRanks : public testing::FaultyRanks {
 protected:
  static constexpr int kOfAWindow = 48;

  Config long_windows(const std::string& out, accum::Accumulation accumulate,
                      Reduce reduce = Reduce::overlap) const {
    Config c = small(out);
    c.precision.accumulate = accumulate;
    c.dist.reduce = reduce;
    c.dist.shares = Shares::equal;
    c.batch.tokens = 2 * kOfAWindow * *c.model.context;
    c.run.steps = 4;
    return c;
  }
  Config fixed(const std::string& out, Reduce reduce = Reduce::overlap) const {
    return long_windows(out, accum::Accumulation::fixed, reduce);
  }
  Config broken_as(const Config& straight, const std::string& out = "broken") const {
    Config broken = straight;
    broken.run.out = (folder_ / out).string();
    return broken;
  }
  /// A copy of a finished run.
  Config copy_of(const Config& c, const std::string& out) const {
    const Config copy = broken_as(c, out);
    fs::copy(c.run.out, copy.run.out, fs::copy_options::recursive);
    return copy;
  }

  /// A signal in the middle of a window of a rank.
  static Fault in_the_middle(const std::string& signal, std::int64_t step = 2) {
    return {.at = "micro-batch", .action = signal, .step = step, .count = 5};
  }
  /// Runs ranks of which one gets a signal in the middle of a window, where all stop.
  void stop(const Config& c, int world, int rank, const Fault& fault,
            const Words& more = {}) const {
    std::vector<Program> ranks = start(c, world, {{rank, {fault}}}, more);
    expect_all_end(ranks, kInterrupted);
  }

  static fs::path newest(const Config& c) {
    const RunDirectory directory(c.run.out);
    return directory.checkpoint(directory.checkpoint_steps().back());
  }
  /// The number of done micro-batches of a window in the newest checkpoint.
  static std::size_t done_in(const Config& c) {
    const json state = json::parse(read_file(newest(c) / "state.json"));
    return state.contains("middle") ? state["middle"]["done"].size() : 0;
  }
  static void expect_in_the_middle(const Config& c) {
    EXPECT_GT(done_in(c), 0U);
    EXPECT_LT(done_in(c), static_cast<std::size_t>(kOfAWindow));
  }
  static bool is_told(const Config& c, const std::string& event, const std::string& part) {
    for (const json& line : events_of(event, c))
      if (line["reason"].get<std::string>().find(part) != std::string::npos) return true;
    return false;
  }
  void expect_goes_on(const Config& c, int world, const Config& straight) const {
    const std::string done = std::to_string(done_in(c)) + " of 48 micro-batches are done";
    expect_runs(c, world, {"--resume"});
    EXPECT_TRUE(is_told(c, "resume", done)) << done;
    expect_same_run(c, straight);
  }
};

TEST_F(KeptWindowOfRanks, GoesOnWithAnyNumberOfRanksToTheBit) {
  const Config straight = fixed("straight"), broken = broken_as(straight);
  train_here(straight);
  stop(broken, 3, 2, in_the_middle("TERM"));
  expect_in_the_middle(broken);
  EXPECT_TRUE(is_told(broken, "checkpoint", "of 48 micro-batches of step "));
  for (const int world : {1, 2, 4})
    expect_goes_on(copy_of(broken, "on" + std::to_string(world)), world, straight);
}

/// Stopped by its first rank, continued by others, and stopped again in the same window.
TEST_F(KeptWindowOfRanks, IsKeptAgainByOtherRanks) {
  const Config straight = fixed("straight", Reduce::end), broken = broken_as(straight);
  train_here(straight);
  stop(broken, 3, 0, in_the_middle("INT"));
  expect_in_the_middle(broken);
  const std::size_t before = done_in(broken);
  stop(broken, 2, 1, {.at = "micro-batch", .action = "TERM", .step = 1, .count = 2}, {"--resume"});
  EXPECT_TRUE(is_told(broken, "resume", "micro-batches are done"));
  expect_in_the_middle(broken);
  EXPECT_GE(done_in(broken), before);
  expect_goes_on(broken, 3, straight);
}

TEST_F(KeptWindowOfRanks, IsKeptAtANoticeToAnyRankAndOutlivesThemAll) {
  const Config straight = fixed("straight"), broken = broken_as(straight);
  train_here(straight);
  // The second close of the window is that of the complete window.
  const auto paused = [](const std::string& rank) -> Fault {
    return {.at = "close-window", .action = "pause:" + rank, .step = 2, .count = 2};
  };
  std::vector<std::unique_ptr<Pause>> pauses;
  for (const char* rank : {"0", "1", "2"}) pauses.push_back(std::make_unique<Pause>(folder_, rank));
  std::vector<Program> ranks =
      start(broken, 3,
            {{0, {paused("0")}}, {1, {in_the_middle("USR2"), paused("1")}}, {2, {paused("2")}}});
  for (const auto& pause : pauses) pause->wait();
  wait_until([&] { return is_told(broken, "checkpoint", "are kept"); });
  for (Program& rank : ranks) ::kill(rank.process(), SIGKILL);
  for (Program& rank : ranks) rank.wait();
  expect_in_the_middle(broken);
  expect_goes_on(broken, 2, straight);
}

TEST_F(KeptWindowOfRanks, IsKeptByTheClockAndTheRunGoesOn) {
  Config straight = fixed("straight");
  straight.run.steps = 2;
  train_here(straight);
  Config often = broken_as(straight);
  often.run.checkpoint_every = {0.2, Duration::Unit::seconds};
  const std::vector<Fault> a_moment{{.at = "micro-batch", .action = "clock:0.05", .count = 0}};
  std::vector<Program> ranks = start(often, 2, {{0, a_moment}, {1, a_moment}});
  expect_all_end(ranks, 0);
  EXPECT_TRUE(is_told(often, "checkpoint", "are kept"));
  expect_same_run(often, straight);
}

TEST_F(KeptWindowOfRanks, OfOneProcessGoesOnWithMany) {
  const Config straight = fixed("straight"), broken = broken_as(straight);
  train_here(straight);
  Trainer trainer(broken);
  trainer.add_observer(std::make_shared<testing::SignalAfter>(kOfAWindow + 20, SIGTERM));
  EXPECT_TRUE(trainer.run().interrupted);
  EXPECT_EQ(done_in(broken), 20U);
  expect_goes_on(broken, 3, straight);
}

TEST_F(KeptWindowOfRanks, InFp32IsTheSameWithinRounding) {
  const Config straight = long_windows("straight", accum::Accumulation::fp32),
               broken = broken_as(straight);
  train_here(straight);
  stop(broken, 3, 1, in_the_middle("TERM"));
  expect_in_the_middle(broken);
  const Config wrong = copy_of(broken, "wrong");
  expect_runs(broken, 2, {"--resume"});
  expect_same_steps(broken, straight);
  EXPECT_TRUE(are_close(broken, straight));
  // The control: a window whose done part has different sums.
  const fs::path file = newest(wrong) / "window.safetensors";
  models::TensorFile window = models::read_safetensors(file);
  for (NamedParameter& sum : window.tensors) sum.tensor.mul_(0.5);
  Manifest manifest = *read_manifest(newest(wrong));
  manifest.files["window.safetensors"].tensors = models::write_safetensors(file, window.tensors);
  write_manifest(newest(wrong), manifest);
  expect_runs(wrong, 2, {"--resume"});
  EXPECT_FALSE(are_close(wrong, straight));
}

/// A window that cannot be kept is finished, as before.
TEST_F(KeptWindowOfRanks, IsFinishedWhereSumsAreCompressed) {
  Config c = long_windows("run", accum::Accumulation::fp32);
  c.dist.compress = distributed::Compression::bf16;
  stop(c, 2, 1, in_the_middle("TERM"));
  EXPECT_EQ(done_in(c), 0U);
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), steps_done(c));
}

}  // namespace
}  // namespace accrue::train
