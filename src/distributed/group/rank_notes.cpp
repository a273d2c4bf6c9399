#include "distributed/group/rank_notes.h"

#include <thread>

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// Two heartbeats and the time for them to arrive.
constexpr milliseconds kListen{1200};
/// How long the store's host waits for others to read why it ended.
constexpr milliseconds kGoodbye{2000};
constexpr milliseconds kPoll{20};

constexpr const char* kVerdict = "verdict";

std::string key(std::string_view topic, int rank) {
  return std::string(topic) + "/" + std::to_string(rank);
}

}  // namespace

void RankNotes::beat(std::int64_t count) const {
  store_->set(key("beat", rank_), std::to_string(count));
}

void RankNotes::enter(std::int64_t collective, std::string_view what) const {
  store_->set(key("at", rank_), std::to_string(collective) + " " + std::string(what));
}

bool RankNotes::has_verdict() const { return store_->check({kVerdict}); }

std::vector<int> RankNotes::without(const std::string& topic) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_; ++rank)
    if (!store_->check({key(topic, rank)})) ranks.push_back(rank);
  return ranks;
}

RankNotes::Texts RankNotes::exchange(const std::string& topic, const std::string& mine,
                                     Deadline until) const {
  store_->set(key(topic, rank_), mine);
  Texts texts;
  while (true) {
    // It is asked before looking: what a rank said before it ended the group still counts.
    const bool is_over = has_verdict() || std::chrono::steady_clock::now() > until;
    texts.missing = without(topic);
    if (texts.missing.empty()) break;
    if (is_over) return texts;
    std::this_thread::sleep_for(kPoll);
  }
  for (int rank = 0; rank < world_; ++rank)
    texts.by_rank.push_back(store_->get_to_str(key(topic, rank)));
  return texts;
}

std::string RankNotes::end_for(const std::string& reason) const {
  std::string decided = store_->compareSet(kVerdict, "", reason);
  say_goodbye();
  return decided;
}

std::string RankNotes::end_in(std::int64_t number, const std::string& error) const {
  if (has_verdict()) return end_for(error);
  const std::string missing = missing_ranks(examine(), number);
  return end_for(missing.empty() ? error : missing);
}

std::vector<std::string> RankNotes::beats() const {
  std::vector<std::string> counts;
  for (int rank = 0; rank < world_; ++rank)
    counts.push_back(store_->check({key("beat", rank)}) ? store_->get_to_str(key("beat", rank))
                                                        : "");
  return counts;
}

std::vector<RankState> RankNotes::examine() const {
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
void RankNotes::say_goodbye() const {
  store_->set(key("left", rank_), std::string("1"));
  if (!hosts_store_) return;
  const Deadline until = from_now(kGoodbye);
  const std::size_t absent = without("here").size();
  while (without("left").size() > absent && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kPoll);
}

}  // namespace accrue::distributed
