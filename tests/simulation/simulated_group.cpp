#include "simulation/simulated_group.h"

#include <chrono>
#include <numeric>

namespace accrue::simulation {
namespace {

using distributed::Candidate;
using distributed::Member;
using distributed::MemberList;
using std::chrono::milliseconds;

constexpr Seconds kLook = 0.02;  ///< between two looks at the members (RankStore)
constexpr Seconds kBeat = 0.4;   ///< between two signs of life (Heartbeat)
constexpr int kTries = 16;       ///< of a group that is renewed (GlooGroup)
constexpr int kPieces = 238;     ///< of 4 MiB, in a state of 1 GB
/// The minimum age of an application that is accepted at a step: the first rank looks with each of
/// its own heartbeats, and has to see a new one between two looks (Membership::has_applicants).
constexpr Seconds kKnown = 0.8;
/// Requests to the store that each rank makes for each other rank: for one look at all of them, for
/// the messages between them until they train, and for finding the missing ones.
constexpr double kRequestsOfLook = 5, kRequestsOfMeeting = 9, kRequestsOfNotice = 8;

milliseconds in_milliseconds(Seconds seconds) {
  return milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

}  // namespace

SimulatedGroup::SimulatedGroup(const Setting& setting, const Rules& rules, Processes& processes,
                               Outcome& outcome)
    : setting_(setting), rules_(rules), processes_(processes), outcome_(outcome) {
  list_.members.resize(static_cast<std::size_t>(setting.machines));
  std::iota(list_.members.begin(), list_.members.end(), 0);
  settle();
}

bool SimulatedGroup::is_whole() const {
  return std::ranges::all_of(members(), [&](Member member) {
    return processes_.lives(member) && !processes_.is_frozen(member);
  });
}

bool SimulatedGroup::is_asked() const {
  return std::ranges::any_of(processes_.applicants_after(list_.applications), [&](Member member) {
    return processes_.lives(member) && processes_.of(member).applied + kKnown <= processes_.now();
  });
}

/// All ranks ask at the same time, and the host answers one after the other.
void SimulatedGroup::ask_store(double requests_of_each_for_each, std::size_t ranks) {
  if (setting_.costs.store_rate == 0) return;
  const auto pairs = static_cast<double>(ranks * ranks);
  processes_.advance(processes_.now() +
                     requests_of_each_for_each * pairs / setting_.costs.store_rate);
}

void SimulatedGroup::find_out_who_is_missing() {
  processes_.advance(processes_.now() + setting_.costs.notice);
  ask_store(kRequestsOfNotice, members().size());
}

void SimulatedGroup::change() {
  for (int tries = 0; !meet(); ++tries)
    if (tries == kTries) throw Broken("ranks were lost in each of 16 tries to meet");
}

/// The state is passed from one newcomer to the next, in pieces; one is sent while the next one
/// arrives (share_state).
Seconds SimulatedGroup::passing_seconds(std::int64_t newcomers) const {
  if (newcomers == 0) return 0;
  return setting_.costs.newcomer * (1 + static_cast<double>(newcomers - 1) / kPieces);
}

/// Decides on the next group and lets its ranks meet; returns whether all of them did. Living
/// processes that are left out end.
bool SimulatedGroup::meet() {
  const MemberList next = decide();
  std::int64_t newcomers = 0;
  for (const Member member : next.members) newcomers += rank_of(member) ? 0 : 1;
  for (const Member member : members())
    if (!distributed::rank_of(member, next) && processes_.lives(member)) processes_.end(member);
  list_ = next;
  processes_.advance(processes_.now() + setting_.costs.meet + passing_seconds(newcomers));
  ask_store(kRequestsOfMeeting, members().size());
  if (!is_whole()) return false;
  settle();
  outcome_.joined += newcomers;
  return true;
}

MemberList SimulatedGroup::decide() {
  const Seconds began = processes_.now();
  while (true) {
    const std::vector<Member> applying = processes_.applicants_after(list_.applications);
    processes_.advance(processes_.now() + kLook);
    ask_store(kRequestsOfLook, members().size());
    if (std::ranges::none_of(settled_, [&](Member one) { return processes_.lives(one); }))
      throw Broken("nobody is left who has the run's state");
    const Seconds waited = processes_.now() - began;
    const std::vector<Candidate> old = old_members(waited), asking = applicants(applying, waited);
    const auto next = timed(outcome_, "who is in the next group", [&] {
      return rules_.next_members(old, asking, in_milliseconds(waited),
                                 in_milliseconds(setting_.timeout));
    });
    if (!next) continue;
    if (std::ssize(*next) < setting_.least) {
      wait_for_others();
      continue;
    }
    const std::vector<Candidate> decided = distributed::decidable(asking);
    for (const Candidate& candidate : decided)
      if (std::ranges::find(*next, candidate.member) == next->end() &&
          processes_.lives(candidate.member))
        processes_.apply_again(candidate.member);
    return {.generation = list_.generation + 1,
            .members = *next,
            .applications = list_.applications + std::ssize(decided)};
  }
}

void SimulatedGroup::wait_for_others() {
  const Seconds began = processes_.now();
  if (began > setting_.length) throw Broken("too few ranks until the end");
  processes_.advance(std::min(began + 1, std::max(began + kLook, processes_.next_event())));
  outcome_.waited += processes_.now() - began;
}

/// The members' views of each other when they have looked for `waited`. Each has a lifeline to the
/// next one.
std::vector<Candidate> SimulatedGroup::old_members(Seconds waited) const {
  std::vector<Candidate> candidates;
  for (std::size_t rank = 0; rank < members().size(); ++rank) {
    const Member member = members()[rank];
    if (!settled_.contains(member)) continue;
    const Member watcher = members()[(rank + members().size() - 1) % members().size()];
    Candidate candidate = seen(member, waited);
    candidate.is_here = candidate.is_alive;
    candidate.has_ended =
        setting_.has_lifelines && !processes_.lives(member) && processes_.lives(watcher);
    candidates.push_back(candidate);
  }
  return candidates;
}

std::vector<Candidate> SimulatedGroup::applicants(const std::vector<Member>& members,
                                                  Seconds waited) const {
  std::vector<Candidate> candidates;
  for (const Member member : members) {
    Candidate candidate = seen(member, waited);
    const bool is_known = processes_.of(member).applied + kKnown + waited <= processes_.now();
    candidate.is_alive = candidate.is_alive && (is_known || waited >= kBeat);
    candidates.push_back(candidate);
  }
  return candidates;
}

Candidate SimulatedGroup::seen(Member member, Seconds waited) const {
  const bool beats = processes_.lives(member) && !processes_.is_frozen(member);
  return {.member = member, .silence = in_milliseconds(beats ? 0 : waited), .is_alive = beats};
}

}  // namespace accrue::simulation
