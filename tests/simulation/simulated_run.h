#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "distributed/group/membership/members.h"
#include "distributed/schedule/window_shares.h"
#include "simulation/processes.h"
#include "train/ranks/remaining_window.h"

namespace accrue::simulation {

/// The costs of changes of ranks, measured with real processes (docs/notes/thousand_ranks.md).
struct Costs {
  Seconds close = 0;     ///< of a window whose micro-batches are done: its sums and its step
  Seconds notice = 0;    ///< from the failing collective until all know which ranks are silent
  Seconds meet = 0;      ///< from the decision on the next group until it trains
  Seconds newcomer = 0;  ///< in addition for one that joined, which gets the run's state
  /// Requests that the host of the store answers per second; 0: they take no time.
  double store_rate = 0;
};

/// A run with one rank on each machine.
struct Setting {
  int machines = 1000;
  std::int64_t least = 1;               ///< dist.min_ranks
  std::int64_t micro_batches = 16'000;  ///< of a window, each of one sample
  Seconds micro_batch_seconds = 0.02;   ///< on the machine in the middle
  double spread = 0;                    ///< standard deviation of the logarithm of machines' speeds
  double noise = 0;  ///< standard deviation of a window's time on one machine, relative
  bool follows_speed = true;
  bool knows_speeds = false;  ///< of each machine in advance, as no real run does
  bool keeps_windows = true;  ///< dist.reduce = "end": of a window only the dead's part is lost
  bool has_lifelines = true;  ///< otherwise a death is noticed by silence
  Seconds timeout = 300;      ///< dist.timeout
  std::int64_t state_tensors = 0;  ///< of an optimizer divided with replicas; 0: none
  Seconds checkpoint_every = 600;
  Fates fates;
  Costs costs;
  Seconds length = 600;
  std::uint64_t seed = 7;
};

/// The program's own decisions, which a test can replace by wrong ones.
struct Rules {
  decltype(&distributed::next_members) next_members = &distributed::next_members;
  decltype(&train::divide_remaining_window) divide_remaining_window =
      &train::divide_remaining_window;
};

/// The durations of calls of one function on the simulating machine.
struct CallTimes {
  std::int64_t calls = 0;
  Seconds seconds = 0, longest = 0;
};

struct Outcome {
  std::int64_t steps = 0, samples = 0;
  Seconds length = 0;  ///< simulated; shorter than requested if the run ended
  Seconds lived = 0;   ///< all processes together
  std::int64_t deaths = 0, changes = 0, joined = 0;
  std::int64_t done_again = 0;  ///< micro-batches that were done, and lost with a rank or a window
  Seconds waited = 0;           ///< for dist.min_ranks
  std::int64_t from_replicas = 0, went_back = 0;  ///< changes of a divided state
  std::vector<double> of_quarters;                ///< samples a second of a living rank, by 15 s
  std::string broken;  ///< the first broken guarantee, or the reason of the run's end; else empty
  std::map<std::string, CallTimes> calls;

  /// Samples per second of a living rank.
  double goodput() const { return static_cast<double>(samples) / lived; }
};

/// Simulates a run's windows for Setting::length, with the program's own functions for the next
/// group, the shares of a window or of the rest of it, the evaluation of the ranks' rows and the
/// parts of a divided optimizer's state. Checks at each step that each sample of its window was in
/// the sums once, of ranks that are in the group, and that the weight is the window's.
Outcome simulate(const Setting& setting, const Rules& rules = {});

}  // namespace accrue::simulation
