#include "rank_store.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "accrue/core/error.h"

namespace accrue::dist {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{400};
/// Two heartbeats and the time for them to arrive.
constexpr milliseconds kListen{1200};
/// How long the store's host waits for others to read why it ended.
constexpr milliseconds kGoodbye{2000};
constexpr milliseconds kPoll{20};

constexpr const char* kVerdict = "verdict";

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return text;
}

}  // namespace

RankStore::RankStore(const Launch& launch, milliseconds timeout)
    : rank_(launch.rank),
      world_(launch.world),
      hosts_store_(launch.rank == 0 && !launch.agent_hosts_store),
      timeout_(timeout),
      store_(connect(launch)) {
  // While the host is known to be there: later it may be gone, and a new connection would wait.
  const c10::intrusive_ptr<c10d::Store> for_heart = store_->clone();
  exchange("here", "1", "connect to the other ranks");
  heart_ = std::jthread([this, for_heart](const std::stop_token& stop) { beat(*for_heart, stop); });
}

RankStore::~RankStore() = default;

c10::intrusive_ptr<c10d::Store> RankStore::connect(const Launch& launch) const {
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = hosts_store_;
  options.waitWorkers = false;
  options.timeout = timeout_;
  try {
    return c10::make_intrusive<c10d::PrefixStore>(
        "accrue/" + std::to_string(launch.restart),
        c10::make_intrusive<c10d::TCPStore>(launch.master_addr, options));
  } catch (const std::exception& error) {
    throw runtime_error(
        "connect to the other ranks",
        std::string(hosts_store_ ? "to host" : "to reach") + " their store at " +
            launch.master_addr + ":" + std::to_string(launch.master_port),
        std::string(error.what()).substr(0, std::string_view(error.what()).find('\n')),
        hosts_store_ ? "another MASTER_PORT"
                     : "starting rank 0, and MASTER_ADDR, MASTER_PORT and firewalls");
  }
}

std::string RankStore::key(std::string_view topic, int rank) const {
  return std::string(topic) + "/" + std::to_string(rank);
}

std::vector<int> RankStore::without(std::string_view topic) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_; ++rank)
    if (!store_->check({key(topic, rank)})) ranks.push_back(rank);
  return ranks;
}

std::vector<std::string> RankStore::exchange(std::string_view topic, const std::string& mine,
                                             std::string_view what) {
  std::vector<std::string> texts;
  std::string failure;
  try {
    store_->set(key(topic, rank_), mine);
    failure = wait_for_all(topic);
    for (int rank = 0; failure.empty() && rank < world_; ++rank)
      texts.push_back(store_->get_to_str(key(topic, rank)));
  } catch (const std::exception&) {
    failure = host_is_gone();
  }
  if (failure.empty()) return texts;
  throw runtime_error(what, "all " + std::to_string(world_) + " ranks in time", failure,
                      "looking at the messages of the rank named, or a longer dist.timeout");
}

std::string RankStore::wait_for_all(std::string_view topic) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (true) {
    // Asked before looking: what a rank said before it ended the group still counts.
    const bool is_over = said_before() || std::chrono::steady_clock::now() > deadline;
    const std::vector<int> missing = without(topic);
    if (missing.empty()) return "";
    if (is_over) return end_for("nothing from " + listed(missing));
    std::this_thread::sleep_for(kPoll);
  }
}

void RankStore::enter(std::int64_t collective, std::string_view what) {
  store_->set(key("at", rank_), std::to_string(collective) + " " + std::string(what));
}

std::vector<std::string> RankStore::gather(std::string_view topic, const std::string& mine) {
  return exchange(std::string(topic) + " " + std::to_string(++gathers_), mine, topic);
}

std::optional<std::string> RankStore::said_before() const {
  if (!store_->check({kVerdict})) return std::nullopt;
  return store_->get_to_str(kVerdict);
}

std::string RankStore::host_is_gone() const {
  return "no sign of life from the host of the store (" +
         std::string(hosts_store_ ? "this rank" : "rank 0, or the launcher's agent") + ")";
}

std::string RankStore::end_for(const std::string& reason) noexcept {
  try {
    const std::string decided = store_->compareSet(kVerdict, "", reason);
    say_goodbye();
    return decided;
  } catch (const std::exception&) {
    return host_is_gone();
  }
}

std::string RankStore::end_in(std::int64_t number, const std::string& error) noexcept {
  std::string reason = error;
  try {
    if (!said_before()) {
      const std::string missing = missing_ranks(examine(), number);
      if (!missing.empty()) reason = missing;
    }
  } catch (const std::exception&) {
    // end_for says that the store is gone.
  }
  return end_for(reason);
}

std::vector<RankState> RankStore::examine() const {
  const auto beats = [this] {
    std::vector<std::string> counts;
    for (int rank = 0; rank < world_; ++rank)
      counts.push_back(store_->check({key("beat", rank)}) ? store_->get_to_str(key("beat", rank))
                                                          : "");
    return counts;
  };
  const std::vector<std::string> before = beats();
  std::this_thread::sleep_for(kListen);
  const std::vector<std::string> after = beats();
  std::vector<RankState> ranks(static_cast<std::size_t>(world_));
  for (int rank = 0; rank < world_; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    ranks[at].is_alive = rank == rank_ || before[at] != after[at];
    if (!store_->check({key("at", rank)})) continue;
    const std::string text = store_->get_to_str(key("at", rank));
    const std::size_t space = text.find(' ');
    ranks[at].collective = std::stoll(text);
    ranks[at].doing = text.substr(space + 1);
  }
  return ranks;
}

/// Where the store ends with this rank, the others are given time to read it first.
void RankStore::say_goodbye() {
  if (std::exchange(said_goodbye_, true)) return;
  store_->set(key("left", rank_), std::string("1"));
  if (!hosts_store_) return;
  const auto deadline = std::chrono::steady_clock::now() + kGoodbye;
  const std::size_t absent = without("here").size();
  while (without("left").size() > absent && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPoll);
}

void RankStore::beat(c10d::Store& store, const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  try {
    for (std::int64_t count = 0; !stop.stop_requested(); ++count) {
      store.set(key("beat", rank_), std::to_string(count));
      stopped.wait_for(lock, stop, kBeat, [] { return false; });
    }
  } catch (const std::exception&) {
    // The store is gone: the next collective finds out.
  }
}

}  // namespace accrue::dist
