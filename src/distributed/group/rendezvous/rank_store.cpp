#include "distributed/group/rendezvous/rank_store.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/distributed/group.h"
#include "core/cause.h"
#include "distributed/group/membership/rank_list.h"
#include "distributed/group/network/pauses.h"
#include "distributed/group/rendezvous/earlier_run.h"
#include "distributed/group/rendezvous/rank_announcement.h"
#include "distributed/group/rendezvous/roll_call.h"
#include "distributed/group/store/text_seal.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// An answer that is later than this is late: it is more than a heartbeat.
constexpr milliseconds kLate{600};
constexpr milliseconds kPollStore{20};
/// How long ranks that agreed on a group may take to meet in it: they were all present just now.
constexpr milliseconds kMeet{20'000};
constexpr milliseconds kAskToWait{100};

/// How long a rank for which no other waits has to be stopped until it is killed: longer than a
/// shell takes to continue all that it stopped.
constexpr milliseconds kStopped{1000};

constexpr const char* kGoOn = "go on with the ranks that are left";

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) append_rank(text, rank);
  return text;
}

}  // namespace

RankStore::RankStore(const Launch& launch, milliseconds timeout, bool may_change,
                     WaitingNote::Tell tell_waiting)
    : note_(launch, timeout, std::move(tell_waiting)),
      connections_(launch, timeout, note_),
      timeout_(timeout),
      stated_by_(launch.stated_by),
      place_{.rank = launch.rank,
             .members = std::vector<Member>(static_cast<std::size_t>(launch.world)),
             .hosts_store = connections_.hosts_the_store()} {
  std::iota(place_.members.begin(), place_.members.end(), 0);
  begin_lifeline();
  form_first_group(may_change);
}

/// Without it deaths are noticed later: by missing signs of life.
void RankStore::begin_lifeline() noexcept {
  try {
    lifeline_.emplace(connections_.own_address());
  } catch (const std::exception&) {
    lifeline_.reset();
  }
}

std::string RankStore::announcement(const std::string& run) const {
  return RankAnnouncement{.run = run,
                          .lifeline = lifeline_ ? lifeline_->place() : "",
                          .process = RankProcess::own().text()}
      .text();
}

milliseconds RankStore::end_time() const { return kEnd + connections_.longest_silence(); }

/// Finds out with which ranks this process was started, or that it comes late to a living run.
void RankStore::answer_roll_call(bool may_change) {
  const Stopwatch watch;
  const Deadline until = from_now(timeout_), answered = until + connections_.longest_silence();
  const auto roll = std::make_shared<RollCall>(connections_.roll_call(place_.rank, place_.world()));
  const auto earlier = std::make_shared<EarlierRun>(connections_, place_.world());
  std::string failure;
  try {
    while (failure.empty()) {
      const bool is_over = std::chrono::steady_clock::now() > until;
      const RollCall::Status found = run_until(answered, [roll] { return roll->poll(); });
      if (found.start) return connections_.set_start(*found.start);
      if (may_change &&
          run_until(answered, [roll, earlier] { return earlier->lives(roll->complete()); }))
        return start_as_applicant(*earlier);
      if (note_.is_due()) report_missing_ranks(roll, answered);
      if (found.failure) failure = *found.failure;
      if (failure.empty() && is_over) {
        failure = give_up(roll);
        if (earlier->is_sealed_otherwise())
          failure += "; those that met there before have another ACCRUE_RUN_TOKEN, or none";
      }
      std::this_thread::sleep_for(kPollStore);
    }
  } catch (const std::exception&) {
    failure = host_is_gone();
  }
  throw not_all_here(kConnect, failure, watch,
                     stated_by_.empty() ? "" : ", as " + stated_by_ + " state");
}

/// The first of the ranks that have come reports it for all.
void RankStore::report_missing_ranks(const std::shared_ptr<RollCall>& roll, Deadline until) {
  const std::vector<int> missing = run_until(until, [roll] { return roll->missing(); });
  const auto before = std::ranges::lower_bound(missing, place_.rank) - missing.begin();
  if (missing.empty() || before != place_.rank) return note_.leave_to_others();
  note_.say(listed(missing));
}

/// Returns why there was no start.
std::string RankStore::give_up(const std::shared_ptr<RollCall>& roll) {
  return run_until(from_now(end_time()), [roll] {
    std::vector<int> missing = roll->missing();
    if (missing.empty()) missing = {0};  // for which all had come
    std::string reason = "nothing from " + listed(missing);
    roll->give_up(reason);
    return reason;
  });
}

/// It has no rank yet: it uses none of the numbers of ranks.
void RankStore::start_as_applicant(const EarlierRun& run) {
  connections_ = run.connections();
  membership_ = run.membership();
  came_late_ = true;
  place_.rank = place_.world();
}

/// Rank 0 names the run in its first text, which is the only one sealed without a name.
void RankStore::form_first_group(bool may_change) {
  answer_roll_call(may_change);
  if (came_late_) return;
  const SealedTexts nameless = connections_.notes();
  notes_.emplace(nameless, nameless, place_);
  const std::string mine = place_.rank == 0 ? random_name() : "";
  const std::vector<std::string> here =
      exchange(kAnnouncement, announcement(mine), kConnect, timeout_);
  // Rank 0 uses its own text: a rank that read another name does not belong to its run.
  connections_.set_run(place_.rank == 0 ? mine : RankAnnouncement::of(here.front()).run);
  const SealedTexts of_run = connections_.notes();
  if (may_change) {
    membership_ = std::make_shared<Membership>(of_run, connections_.heartbeats(), place_.rank,
                                               place_.world());
    if (place_.rank == 0) Membership::announce_all_met(of_run);
  }
  notes_.emplace(of_run, of_run, place_);
  start_heartbeat(here);
}

/// The result of `question`, which asks the store. Throws a runtime Error if its host is gone.
template <class Ask>
std::invoke_result_t<Ask&> RankStore::ask(std::string_view what, Ask question) {
  try {
    return run_until(from_now(end_time()), std::move(question));
  } catch (const std::exception&) {
    throw runtime_error(what, "the store of the run", host_is_gone(),
                        "--resume from the last checkpoint");
  }
}

void RankStore::apply() {
  ask(kGoOn, [membership = membership_] { membership->apply(); });
  start_applicant_heartbeat();
}

/// Signs of life of a process that waits to be let in.
void RankStore::start_applicant_heartbeat() {
  heartbeat_.reset();
  heartbeat_.emplace(RankNotes(connections_.heartbeats("late"), connections_.heartbeats(),
                               {.members = {membership_->own()}}),
                     timeout_);
}

void RankStore::settle() {
  if (membership_) membership_->settle();
}

std::string RankStore::part() const {
  return generation() == 0 ? "" : "group/" + std::to_string(generation());
}

/// The name of a text of this group among those of the run.
std::string RankStore::in_part(const std::string& name) const {
  const std::string group = part();
  return group.empty() ? name : group + "/" + name;
}

/// `here` are the ranks' texts when they met. Each rank watches the next one.
void RankStore::start_heartbeat(const std::vector<std::string>& here) {
  heartbeat_.reset();
  heartbeat_.emplace(RankNotes(connections_.heartbeats(part()), connections_.heartbeats(), place_),
                     timeout_, place_.rank == 0 ? membership_ : nullptr);
  for (std::size_t rank = 0; rank < here.size(); ++rank)
    met_.insert_or_assign(place_.members[rank],
                          RankProcess(RankAnnouncement::of(here[rank]).process));
  const auto next = static_cast<std::size_t>((place_.rank + 1) % place_.world());
  if (lifeline_)
    lifeline_->watch(RankAnnouncement::of(here[next]).lifeline, connections_.deaths(),
                     {{death_key(place_.members[next]), "1"},
                      {in_part(RankNotes::kLostOne), std::to_string(next)}});
}

Error RankStore::not_all_here(std::string_view what, const std::string& failure,
                              const Stopwatch& watch, const std::string& reason) const {
  return runtime_error(
      what, "all " + std::to_string(world()) + " ranks at " + connections_.place() + reason,
      failure + ", after " + format_seconds(watch.seconds()),
      "looking at the messages of the rank named, or a longer dist.timeout");
}

std::vector<std::string> RankStore::exchange(const std::string& topic, const std::string& mine,
                                             std::string_view what, milliseconds timeout) {
  const Stopwatch watch;
  RankNotes::Texts texts;
  try {
    const Deadline until = from_now(timeout);
    texts = run_until(
        until + connections_.longest_silence(),
        [notes = *notes_, topic, mine, until] { return notes.exchange(topic, mine, until); });
  } catch (const std::exception&) {
    throw not_all_here(what, decided_ ? *decided_ : host_is_gone(), watch);
  }
  // A verdict from before the ranks met no longer counts when the run has its name.
  const bool counts = heartbeat_ || !texts.had_verdict;
  if (texts.is_complete() && counts) return texts.by_rank;
  if (!texts.foreign.empty()) refuse(texts, topic, what);
  const RanksGone gone(not_all_here(what, end_for("nothing from " + listed(texts.missing)), watch));
  if (!heartbeat_) linger_before_exit();
  throw gone;
}

/// Before the ranks have met, the error is in how they were launched.
void RankStore::refuse(const RankNotes::Texts& texts, const std::string& topic,
                       std::string_view what) {
  const std::string reason = "something else in the place of " + listed(texts.foreign);
  const std::string decided = end_for(reason);
  linger_before_exit();
  throw(heartbeat_ ? runtime_error : usage_error)(
      what,
      "words signed with this run's ACCRUE_RUN_TOKEN under '" + topic + "' at " +
          connections_.place(),
      decided,
      "the same ACCRUE_RUN_TOKEN on all ranks, or none on all; if it is the same, another program "
      "writes into the store");
}

void RankStore::enter(std::int64_t collective, std::string_view what) {
  // It is sent without an answer, so it waits only if the host has read nothing for long.
  if (!decided_ && heartbeat_->silence() <= connections_.longest_silence())
    notes_->enter(collective, what);
}

std::vector<std::string> RankStore::gather(std::string_view topic, const std::string& mine) {
  return exchange(std::string(topic) + " " + std::to_string(++gathers_), mine, topic, timeout_);
}

const std::string& RankStore::host_is_gone() {
  has_lost_host_ = true;
  decided_ = connections_.host_is_gone();
  return *decided_;
}

/// The heartbeat uses the store all the time: if it gets no answer, no other call will. If an
/// answer is only late, time shows it.
bool RankStore::has_lost_contact() const {
  if (!heartbeat_) return false;
  const milliseconds longest = connections_.longest_silence();
  while (heartbeat_->silence() > kLate && heartbeat_->silence() <= longest)
    std::this_thread::sleep_for(kPollStore);
  return heartbeat_->silence() > longest;
}

template <class Decide>
std::string RankStore::decide(Decide decide) noexcept {
  if (decided_) return *decided_;
  try {
    if (has_lost_contact()) return host_is_gone();
    decided_ = run_until(from_now(end_time()), std::move(decide));
  } catch (const std::exception&) {
    host_is_gone();
  }
  return *decided_;
}

std::string RankStore::end_for(const std::string& reason) noexcept {
  if (!notes_) return reason;  // a process that came late is not one of them yet
  return decide([notes = *notes_, reason] { return notes.end_for(reason); });
}

std::string RankStore::end_in(std::int64_t number, const std::string& error) noexcept {
  return decide([notes = *notes_, number, error] { return notes.end_in(number, error); });
}

void RankStore::linger_before_exit() noexcept {
  if (!notes_ || has_lost_host_) return;
  try {
    run_until(from_now(end_time()), [notes = *notes_] { notes.linger_before_exit(); });
  } catch (const std::exception&) {
    // No rank is left to receive it.
  }
}

void RankStore::end_stopped_ranks(bool is_over) const {
  std::vector<PendingExit> awaited;
  for (const auto& [member, process] : met_) {
    const bool may_go_on =
        !is_over && std::ranges::find(place_.members, member) != place_.members.end();
    awaited.push_back({process, may_go_on ? timeout_ : kStopped});
  }
  end_stopped(std::move(awaited));
}

Membership::Status RankStore::poll(std::int64_t least) {
  return ask(kGoOn, [membership = membership_, least, patience = timeout_] {
    return membership->poll(least, patience);
  });
}

void RankStore::agree(std::int64_t least, const KeepWaiting& keep_waiting) {
  Deadline asked = std::chrono::steady_clock::now();
  Pauses pauses;
  for (Membership::Status found = poll(least); !found.is_decided; found = poll(least)) {
    if (found.is_left_alone)
      throw runtime_error(kGoOn, "one that lives and has the run's state", "none",
                          "--resume from the last checkpoint");
    if (found.has_reapplied) start_applicant_heartbeat();
    const Deadline now = std::chrono::steady_clock::now();
    const bool is_let_in = rank_of(membership_->own(), membership_->list()).has_value();
    if ((found.present > 0 || !is_let_in) && now > asked + kAskToWait) {
      asked = now;
      if (!keep_waiting(found.present, found.is_first))
        throw runtime_error(kGoOn, std::to_string(least) + " ranks or more",
                            std::to_string(found.present) + ", until the waiting was ended",
                            "--resume when there are enough, or a smaller dist.min_ranks");
    }
    pauses.pause();
  }
}

void RankStore::form_next_group(std::int64_t least, const KeepWaiting& keep_waiting) {
  if (membership_->own() == Membership::kNobody) apply();
  agree(least, keep_waiting);
  const auto rank = rank_of(membership_->own(), membership_->list());
  if (!rank) {
    met_.clear();  // the others are no longer its ranks
    throw runtime_error(kGoOn, "signs of life of this rank",
                        "none in time, so that the others went on without this rank",
                        "starting it again, to join them");
  }
  place_.rank = *rank;
  place_.members = membership_->list().members;
  decided_.reset();
  gathers_ = 0;
  notes_.emplace(connections_.notes(part()), connections_.notes(), place_);
  start_heartbeat(exchange(kAnnouncement, announcement(""), kGoOn, std::min(timeout_, kMeet)));
}

}  // namespace accrue::distributed
