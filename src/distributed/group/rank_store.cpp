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
#include "distributed/group/run_token.h"
#include "distributed/group/sealed_store.h"
#include "distributed/group/sealed_texts.h"

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
  c10::intrusive_ptr<c10d::Store> host;
  std::shared_ptr<StoreClient> notes, heart, engine, device;
};

RankStore::RankStore(const Launch& launch, milliseconds timeout)
    : rank_(launch.rank),
      world_(launch.world),
      hosts_store_(launch.rank == 0 && !launch.agent_hosts_store),
      agent_hosts_store_(launch.agent_hosts_store),
      place_(launch.master_addr + ":" + std::to_string(launch.master_port)),
      timeout_(timeout) {
  check_strangers_stay_out(launch);
  const Connections made = connect(launch);
  host_ = made.host;
  const std::string folder = "accrue/" + std::to_string(launch.restart);
  const auto notes_of = [&](const std::shared_ptr<StoreClient>& client, const std::string& run) {
    return notes_by(SealedTexts(client, folder, TextSeal(launch.run_token, run)));
  };
  notes_.emplace(notes_of(made.notes, ""));
  // Rank 0 names the run: what was written in another one with the same token is of no use in this.
  const std::string run = exchange("here", rank_ == 0 ? random_name() : "1", kConnect).front();
  notes_.emplace(notes_of(made.notes, run));
  const auto store_for = [&](const std::shared_ptr<StoreClient>& client, const std::string& where) {
    return c10::make_intrusive<SealedStore>(
        c10::make_intrusive<c10d::PrefixStore>(where, made.host),
        SealedTexts(client, where, TextSeal(launch.run_token, run)));
  };
  for_engine_ = store_for(made.engine, folder);
  for_device_ = store_for(made.device, folder + "/device");
  heart_.emplace(notes_of(made.heart, run), timeout);
}

RankNotes RankStore::notes_by(SealedTexts texts) const {
  return {std::move(texts), rank_, world_, hosts_store_};
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
    return run_until(from_now(timeout_ + kAnswer), [options, host = launch.master_addr] {
      const auto client = [&] { return std::make_shared<StoreClient>(host, options.port); };
      // c10d's waits until the host is there; later a new connection would wait for it.
      const auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
      return Connections{store, client(), client(), client(), client()};
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
    // A verdict from before the ranks met is not heard afterwards, when the run has its name.
    const bool counts = heart_ || !texts.had_verdict;
    if (texts.is_complete() && counts) return texts.by_rank;
    if (!texts.foreign.empty()) refuse(texts, topic, what);
    failure = end_for("nothing from " + listed(texts.missing));
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    if (!decided_) decided_ = host_is_gone();
    failure = *decided_;
  }
  throw runtime_error(what, "all " + std::to_string(world_) + " ranks at " + place_,
                      failure + ", after " + format_seconds(watch.seconds()),
                      "looking at the messages of the rank named, or a longer dist.timeout");
}

/// Before the ranks have met it is how they were launched that is wrong.
void RankStore::refuse(const RankNotes::Texts& texts, const std::string& topic,
                       std::string_view what) {
  const std::string reason = "something else in the place of " + listed(texts.foreign);
  throw(heart_ ? runtime_error : usage_error)(
      what, "words signed with this run's ACCRUE_RUN_TOKEN under '" + topic + "' at " + place_,
      end_for(reason),
      "the same ACCRUE_RUN_TOKEN on all ranks, or none on all; where it is the same, somebody else "
      "writes into the store");
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
