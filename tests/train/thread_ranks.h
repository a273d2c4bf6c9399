#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "accrue/distributed/group.h"
#include "distributed/ranks.h"
#include "train/ranks/parallelism.h"
#include "train/recorder.h"
#include "train/window/close_window.h"

/// Ranks that are threads of this process.
namespace accrue::train::testing {

/// Calls `run(rank, group)` on a thread for each of `world` ranks, whose group uses the loopback
/// interface.
template <class Run>
void run_thread_ranks(std::size_t world, const Run& run) {
  const accrue::testing::ReservedPort port;
  const auto run_rank = [&](std::size_t rank) {
    run(rank, distributed::connect({.rank = static_cast<int>(rank),
                                    .world = static_cast<int>(world),
                                    .master_addr = "127.0.0.1",
                                    .master_port = port.number()},
                                   {.timeout = std::chrono::seconds(120)}));
  };
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < world; ++rank) threads.emplace_back(run_rank, rank);
}

/// Adds up the sums of ranks.
class SumOfRanks : public Parallelism {
 public:
  explicit SumOfRanks(distributed::DeferredReduce& reduce) : reduce_(reduce) {}
  batch::Range share(batch::Range window) override { return window; }
  void close(accum::Window& window, WindowRun& run) override {
    close_shared_window(window, reduce_, {}, {}, run);
  }
  std::vector<RankRecord> records() const override { return {}; }

 private:
  distributed::DeferredReduce& reduce_;
};

/// A recipient of a runner's reports.
struct Told {
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  RunLog::Observers observers{recorder};
  TrainState state;
  RunLog log{observers, state, true};
  RunControl control;
  memory::Retries retries;
};

}  // namespace accrue::train::testing
