#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <random>
#include <unordered_map>
#include <vector>

#include "distributed/group/membership/members.h"

namespace accrue::simulation {

using Seconds = double;

/// The fates of processes. Means are of exponential distributions; 0: it does not happen.
struct Fates {
  Seconds lifetime = 0;                       ///< mean, from the start of a process until it dies
  Seconds kill_every = 0;                     ///< how often a random process is killed
  Seconds freezes_after = 0, frozen_for = 0;  ///< means, of each process
  Seconds away = 0;                           ///< from its end until its machine starts another
  Seconds start = 0;  ///< from there until that asks to join; those of the beginning are there
};

/// Processes, one on each machine, that die, freeze and are restarted, on a simulated clock. The
/// initial ones are the members 0, 1, ...; an applicant has a number of
/// distributed::Membership's.
class Processes {
 public:
  struct Process {
    int machine = 0;
    std::optional<Seconds> ended = {};
    Seconds frozen_until = 0;
    Seconds applied = 0;  ///< when it last asked to join
  };

  Processes(int machines, const Fates& fates, std::uint64_t seed);

  Seconds now() const { return now_; }
  /// The time of the next event; never if there is none.
  Seconds next_event() const;
  /// Simulates all events up to that time.
  void advance(Seconds until);

  const Process& of(distributed::Member member) const { return all_[index_.at(member)]; }
  bool lives(distributed::Member member) const { return !of(member).ended; }
  bool is_frozen(distributed::Member member) const { return of(member).frozen_until > now_; }

  /// The applicants after the first `applications`.
  std::vector<distributed::Member> applicants_after(std::int64_t applications) const;
  /// A process that the others passed over applies again, or has a different number from now on.
  void apply_again(distributed::Member member);
  /// Ends a process that was left out by the others.
  void end(distributed::Member member);

  /// The total lifetime of all processes between two times on the clock.
  Seconds lived(Seconds from, Seconds to) const;
  std::int64_t deaths() const { return deaths_; }

 private:
  enum class Kind { death, kill, freeze, wake, start, application };
  struct Event {
    Seconds at = 0;
    Kind kind = Kind::death;
    std::size_t process = 0;
    bool operator>(const Event& other) const { return at > other.at; }
  };

  void begin_process(int machine);
  void happen(const Event& event);
  void end(std::size_t process);
  void apply(std::size_t process);
  void plan_after(Seconds mean, Kind kind, std::size_t process);
  Seconds draw(Seconds mean);

  Fates fates_;
  std::mt19937_64 random_;
  Seconds now_ = 0;
  std::vector<Process> all_;
  std::vector<std::size_t> of_machine_;  ///< the last process on each machine
  std::unordered_map<distributed::Member, std::size_t> index_;
  std::vector<distributed::Member> applications_;  ///< in the order of application
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Seconds> starts_, ends_;  ///< of processes, in order of time
  std::int64_t deaths_ = 0;
};

}  // namespace accrue::simulation
