#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "integration/ranks/distributed_run.h"

namespace accrue::train::testing {

using accrue::testing::Program;

/// Runs whose store lives on whichever rank dies, as a launcher's agent lets it.
class ChangingRanks : public DistributedRun {
 protected:
  void SetUp() override {
    DistributedRun::SetUp();
    start_host();
  }
  void TearDown() override {
    end_host();
    DistributedRun::TearDown();
  }

  void start_host() {
    port_ = std::to_string(accrue::testing::free_port());
    std::filesystem::create_directories(folder_ / "host");
    host_.emplace(folder_ / "host", Words{ACCRUE_STORE_HOST, port_});
  }
  void end_host() {
    ::kill(host_->process(), SIGKILL);
    host_->wait();
  }

  /// Sums of integers, so that the bits of the result depend on nothing but the samples.
  Config fixed(const std::string& out, std::int64_t steps) const {
    Config c = small(out);
    c.precision.accumulate = accum::Accumulation::fixed;
    c.run.steps = steps;
    c.run.eval_every = Duration{static_cast<double>(steps) / 2, Duration::Unit::steps};
    c.dist.timeout = {30, Duration::Unit::seconds};
    return c;
  }

  /// Rank `rank` of `world`, in a folder of its own with a copy of the text.
  Program start_rank(int rank, int world, const Words& words) {
    const std::filesystem::path own = folder_ / ("process" + std::to_string(++started_));
    std::filesystem::create_directories(own);
    std::filesystem::copy(folder_ / "text.txt", own);
    Words command{"/usr/bin/env",
                  "RANK=" + std::to_string(rank),
                  "WORLD_SIZE=" + std::to_string(world),
                  "LOCAL_RANK=0",
                  "MASTER_ADDR=127.0.0.1",
                  "MASTER_PORT=" + port_,
                  "TORCHELASTIC_USE_AGENT_STORE=True",
                  "OMP_NUM_THREADS=1"};
    command.insert(command.end(), words.begin(), words.end());
    return {own, std::move(command)};
  }
  /// Ranks whose micro-batches take a moment, so that there is time to kill some of them.
  /// `more` as slow_rank.cpp has it.
  Words slow(const Config& c, const Words& more = {}) const {
    Words words{ACCRUE_SLOW_RANK, command(c)[2], std::to_string(micro_batch_ms_)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<Program> start_all(const Config& c, int world, const Words& more = {}) {
    const Words words = slow(c, more);
    std::vector<Program> ranks;
    for (int rank = 0; rank < world; ++rank) ranks.push_back(start_rank(rank, world, words));
    return ranks;
  }

  static void kill_it(Program& rank) {
    ::kill(rank.process(), SIGKILL);
    EXPECT_NE(rank.wait().status, 0) << "it was not killed in time";
  }
  /// A signal takes a moment to stop a process: until the kernel says that it is.
  static void freeze(Program& rank) {
    ::kill(rank.process(), SIGSTOP);
    accrue::testing::wait_until([&] {
      std::ifstream status("/proc/" + std::to_string(rank.process()) + "/status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("State:")) return line.find('T') != std::string::npos;
      return false;
    });
  }
  static void expect_ends_well(Program& rank) {
    const Program::Result result = rank.wait();
    EXPECT_EQ(result.status, 0) << result.errors;
  }
  static std::vector<std::int64_t> worlds_of(const Config& c) {
    std::vector<std::int64_t> worlds;
    for (const nlohmann::json& step : steps_of(c))
      if (worlds.empty() || worlds.back() != step["world"]) worlds.push_back(step["world"]);
    return worlds;
  }
  /// The file of the parameters that a run ended with.
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
  /// The run of three ranks of which `victim` is killed, with a store of its own.
  Config run_without(int victim, const Config& alone) {
    Config c = alone;
    c.run.out = (folder_ / ("lost" + std::to_string(victim))).string();
    end_host();
    start_host();
    std::vector<Program> ranks = start_all(c, 3);
    wait_for_step(c, 5);
    kill_it(ranks[static_cast<std::size_t>(victim)]);
    for (int rank = 0; rank < 3; ++rank)
      if (rank != victim) expect_ends_well(ranks[static_cast<std::size_t>(rank)]);
    expect_same_run(c, alone);
    return c;
  }

  int micro_batch_ms_ = 20;

 private:
  std::string port_;
  std::optional<Program> host_;
  int started_ = 0;
};

}  // namespace accrue::train::testing
