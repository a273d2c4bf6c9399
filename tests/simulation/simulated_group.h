#pragma once

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "accrue/core/clock.h"
#include "simulation/simulated_run.h"

namespace accrue::simulation {

/// Ends a simulation: a guarantee is broken, or the run cannot continue.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Calls `function` and records its duration.
template <class Function>
auto timed(Outcome& outcome, const std::string& name, Function function) {
  const Stopwatch watch;
  auto result = function();
  const Seconds seconds = watch.seconds();
  CallTimes& times = outcome.calls[name];
  ++times.calls;
  times.seconds += seconds;
  times.longest = std::max(times.longest, seconds);
  return result;
}

/// The ranks of a simulated run, which form groups by distributed::Membership. Throws Broken if
/// they cannot. Its arguments must outlive it.
class SimulatedGroup {
 public:
  SimulatedGroup(const Setting& setting, const Rules& rules, Processes& processes,
                 Outcome& outcome);

  const std::vector<distributed::Member>& members() const { return list_.members; }
  std::optional<int> rank_of(distributed::Member member) const {
    return distributed::rank_of(member, list_);
  }
  /// Whether all of them are alive and awake.
  bool is_whole() const;
  /// Whether the first rank knows of a process that asks to join.
  bool is_asked() const;
  /// After a failed collective, simulates the time until all know the missing ranks.
  void find_out_who_is_missing();
  /// Renews the group until one works.
  void change();

 private:
  bool meet();
  Seconds passing_seconds(std::int64_t newcomers) const;
  distributed::MemberList decide();
  void wait_for_others();
  void settle() { settled_ = {members().begin(), members().end()}; }
  void ask_store(double requests_of_each_for_each, std::size_t ranks);
  std::vector<distributed::Candidate> old_members(Seconds waited) const;
  std::vector<distributed::Candidate> applicants(const std::vector<distributed::Member>& members,
                                                 Seconds waited) const;
  distributed::Candidate seen(distributed::Member member, Seconds waited) const;

  const Setting& setting_;
  const Rules& rules_;
  Processes& processes_;
  Outcome& outcome_;
  distributed::MemberList list_;
  std::unordered_set<distributed::Member> settled_;  ///< the members of the last working group
};

}  // namespace accrue::simulation
