#include "distributed/group/rank_store.h"

#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "core/cause.h"
#include "distributed/group/listening_socket.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// How long an answer of the store may be under way when the time for it is over, and how long a
/// rank that lives may go without one.
constexpr milliseconds kAnswer{1200};
/// An answer that is later than this is late: it is more than a heartbeat.
constexpr milliseconds kLate{600};
constexpr milliseconds kPollSilence{20};

constexpr const char* kConnect = "connect to the other ranks";

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return text;
}

}  // namespace

/// Connections to one store, each of which waits for its own answers alone.
struct RankStore::Connections {
  c10::intrusive_ptr<c10d::Store> notes, heart, engine;
};

RankStore::RankStore(const Launch& launch, milliseconds timeout)
    : rank_(launch.rank),
      world_(launch.world),
      hosts_store_(launch.rank == 0 && !launch.agent_hosts_store),
      agent_hosts_store_(launch.agent_hosts_store),
      place_(launch.master_addr + ":" + std::to_string(launch.master_port)),
      timeout_(timeout) {
  Connections made = connect(launch);
  const auto notes_on = [this](c10::intrusive_ptr<c10d::Store> store) {
    return RankNotes(std::move(store), rank_, world_, hosts_store_);
  };
  notes_.emplace(notes_on(std::move(made.notes)));
  for_engine_ = std::move(made.engine);
  exchange("here", "1", kConnect);
  heart_.emplace(notes_on(std::move(made.heart)), timeout);
}

RankStore::Connections RankStore::connect(const Launch& launch) const {
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = hosts_store_;
  options.waitWorkers = false;
  options.timeout = timeout_;
  // The store would listen on all interfaces, and it asks nobody who he is.
  if (hosts_store_)
    options.masterListenFd = listening_socket(launch.master_addr, launch.master_port);
  try {
    return run_until(from_now(timeout_ + kAnswer), [options, host = launch.master_addr,
                                                    restart = launch.restart] {
      const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::PrefixStore>(
          "accrue/" + std::to_string(restart), c10::make_intrusive<c10d::TCPStore>(host, options));
      // They are made while the host is known to be there: later a new connection would wait for
      // it.
      return Connections{store, store->clone(), store->clone()};
    });
  } catch (const std::exception& error) {
    const std::string reason = cause_of(error);
    if (hosts_store_)
      throw runtime_error(kConnect, "to host their store at " + place_, reason,
                          "another MASTER_PORT");
    throw runtime_error(kConnect, "to reach their store at " + place_,
                        host_is_gone() + ": " + reason,
                        "starting rank 0, and MASTER_ADDR, MASTER_PORT and firewalls; the store "
                        "listens on the interface of MASTER_ADDR alone");
  }
}

std::vector<std::string> RankStore::exchange(const std::string& topic, const std::string& mine,
                                             std::string_view what) {
  const Stopwatch watch;
  std::string failure;
  try {
    const Deadline until = from_now(timeout_);
    const RankNotes::Texts texts = run_until(
        until + kAnswer,
        [notes = *notes_, topic, mine, until] { return notes.exchange(topic, mine, until); });
    if (texts.missing.empty()) return texts.by_rank;
    failure = end_for("nothing from " + listed(texts.missing));
  } catch (const std::exception&) {
    if (!decided_) decided_ = host_is_gone();
    failure = *decided_;
  }
  throw runtime_error(what, "all " + std::to_string(world_) + " ranks at " + place_,
                      failure + ", after " + format_seconds(watch.seconds()),
                      "looking at the messages of the rank named, or a longer dist.timeout");
}

void RankStore::enter(std::int64_t collective, std::string_view what) {
  // It is sent and not answered, so it waits only where the host has read nothing for long.
  if (!decided_ && heart_->silence() <= kAnswer) notes_->enter(collective, what);
}

std::vector<std::string> RankStore::gather(std::string_view topic, const std::string& mine) {
  return exchange(std::string(topic) + " " + std::to_string(++gathers_), mine, topic);
}

std::string RankStore::host_is_gone() const {
  if (hosts_store_) return "no answer from the store that this rank hosts at " + place_;
  return std::string("no sign of life from the host of the store (") +
         (agent_hosts_store_ ? "the launcher's agent" : "rank 0") + ", at " + place_ + ")";
}

/// The heartbeat asks the store all the time: what that does not hear nobody will. Where an answer
/// is late, time tells.
bool RankStore::is_deaf() const {
  if (!heart_) return false;
  while (heart_->silence() > kLate && heart_->silence() <= kAnswer)
    std::this_thread::sleep_for(kPollSilence);
  return heart_->silence() > kAnswer;
}

template <class Decide>
std::string RankStore::decide(Decide decide) noexcept {
  if (decided_) return *decided_;
  try {
    decided_ = is_deaf() ? host_is_gone() : run_until(from_now(kEnd), std::move(decide));
  } catch (const std::exception&) {
    decided_ = host_is_gone();
  }
  return *decided_;
}

std::string RankStore::end_for(const std::string& reason) noexcept {
  return decide([notes = *notes_, reason] { return notes.end_for(reason); });
}

std::string RankStore::end_in(std::int64_t number, const std::string& error) noexcept {
  return decide([notes = *notes_, number, error] { return notes.end_in(number, error); });
}

}  // namespace accrue::distributed
