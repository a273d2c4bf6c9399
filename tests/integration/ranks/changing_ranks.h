#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "integration/ranks/faulty_ranks.h"

namespace accrue::train::testing {

using accrue::testing::Pause;

/// Runs whose store outlives all of their ranks, as with a launcher's agent.
class ChangingRanks : public FaultyRanks {
 protected:
  /// The number of steps, and the step in which a rank has a fault.
  static constexpr std::int64_t kSteps = 12, kStep = 6;

  void SetUp() override {
    FaultyRanks::SetUp();
    Words words{ACCRUE_STORE_HOST};
    for (const accrue::testing::ReservedPort& port : ports_)
      words.push_back(std::to_string(port.number()));
    std::filesystem::create_directories(folder_ / "host");
    host_.emplace(folder_ / "host", words);
  }
  void TearDown() override {
    ::kill(host_->process(), SIGKILL);
    host_->wait();
    FaultyRanks::TearDown();
  }

  /// From now on ranks meet in another store, in which no run has left anything.
  void take_new_store() { ++store_; }

  /// Sums of integers, so that the bits of the result depend only on the samples.
  Config fixed(const std::string& out, std::int64_t steps = kSteps) const {
    Config c = small(out);
    c.precision.accumulate = accum::Accumulation::fixed;
    c.dist.shares = Shares::equal;  // so that the shares of the micro-batches ignore speed
    c.run.steps = steps;
    c.run.eval_every = Duration{static_cast<double>(steps) / 2, Duration::Unit::steps};
    c.dist.timeout = {30, Duration::Unit::seconds};
    return c;
  }
  /// The same, but it runs until a signal ends it.
  Config endless_fixed(const std::string& out) const {
    Config c = endless(out);
    c.dist.shares = Shares::equal;
    c.dist.timeout = {30, Duration::Unit::seconds};
    return c;
  }
  /// `alone` in another folder.
  Config as(const Config& alone, const std::string& out) const {
    Config c = alone;
    c.run.out = (folder_ / out).string();
    return c;
  }

  static Fault killed_at(const std::string& point, std::int64_t count = 1,
                         std::int64_t step = kStep) {
    return {.at = point, .action = "kill", .step = step, .count = count};
  }
  /// Signals `pause` when the rank has taken this many steps itself.
  static Fault tells_at_step(const std::string& pause, std::int64_t step) {
    return {.at = "optimizer-step", .action = "tell:" + pause, .step = step};
  }
  /// Ends the run after this many steps of this rank.
  static Fault stops_at_step(std::int64_t step) {
    return {.at = "optimizer-step", .action = "TERM", .step = step};
  }

  /// Rank `rank` of `world`, in a separate folder with a copy of the text. `words` are its command,
  /// preceded by the words that arm its faults.
  Program start_rank(int rank, int world, const Words& words) {
    const std::filesystem::path own = folder_ / ("process" + std::to_string(++started_));
    std::filesystem::create_directories(own);
    std::filesystem::copy(folder_ / "text.txt", own);
    Words command{"/usr/bin/env",
                  "RANK=" + std::to_string(rank),
                  "WORLD_SIZE=" + std::to_string(world),
                  "LOCAL_RANK=0",
                  "MASTER_ADDR=127.0.0.1",
                  "MASTER_PORT=" + std::to_string(ports_.at(store_).number()),
                  "TORCHELASTIC_USE_AGENT_STORE=True",
                  "OMP_NUM_THREADS=1"};
    command.insert(command.end(), words.begin(), words.end());
    return {own, std::move(command)};
  }
  std::vector<Program> start_all(const Config& c, int world, const FaultsOfRanks& faults = {},
                                 const Words& more = {}) {
    const Words words = command(c, more);
    std::vector<Program> ranks;
    for (int rank = 0; rank < world; ++rank)
      ranks.push_back(start_rank(rank, world, with_faults(faults, rank, words)));
    return ranks;
  }

  static void expect_killed(Program& rank) {
    const Program::Result result = rank.wait();
    EXPECT_EQ(result.status, kKilled) << result.errors;
  }
  /// Stops the rank; waits until the kernel reports it as stopped, which takes a moment.
  static void freeze(Program& rank) {
    ::kill(rank.process(), SIGSTOP);
    accrue::testing::wait_until([&] {
      std::ifstream status("/proc/" + std::to_string(rank.process()) + "/status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("State:")) return line.find('T') != std::string::npos;
      return false;
    });
  }
  static void expect_ends(Program& rank, int status) {
    const Program::Result result = rank.wait();
    EXPECT_EQ(result.status, status) << result.errors;
  }
  static void expect_ends_well(Program& rank) { expect_ends(rank, 0); }

  static std::vector<std::int64_t> worlds_of(const Config& c) {
    std::vector<std::int64_t> worlds;
    for (const nlohmann::json& step : steps_of(c))
      if (worlds.empty() || worlds.back() != step["world"]) worlds.push_back(step["world"]);
    return worlds;
  }
  /// The file of the final parameters of a run.
  static std::string last_model(const Config& c) {
    const RunDirectory run(c.run.out);
    return read_file(run.checkpoint(run.checkpoint_steps().back()) / "model.safetensors");
  }
  static std::string reasons_of(const Config& c) {
    std::string all;
    for (const nlohmann::json& event : events_of("dist", c))
      all += event["reason"].get<std::string>() + "\n";
    return all;
  }

  /// Runs three ranks, of which the `victims` are killed at their points, with a separate store.
  /// Expects the result of `alone`.
  void run_without(const FaultsOfRanks& victims, const Config& c, const Config& alone) {
    take_new_store();
    std::vector<Program> ranks = start_all(c, 3, victims);
    for (int rank = 0; rank < 3; ++rank) {
      Program& program = ranks[static_cast<std::size_t>(rank)];
      victims.contains(rank) && victims.at(rank).back().action == "kill"
          ? expect_killed(program)
          : expect_ends_well(program);
    }
    expect_same_run(c, alone);
  }

 private:
  /// One for each run of a test: a process that serves them all is started once.
  std::array<accrue::testing::ReservedPort, 8> ports_;
  std::size_t store_ = 0;
  std::optional<Program> host_;
  int started_ = 0;
};

}  // namespace accrue::train::testing
