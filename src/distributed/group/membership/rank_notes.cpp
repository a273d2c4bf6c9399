#include "distributed/group/membership/rank_notes.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <thread>
#include <utility>

#include "distributed/group/network/pauses.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// Two heartbeats and the time for them to arrive.
constexpr milliseconds kListen{1200};
/// Processes that die together do so, and are reported, within this time.
constexpr milliseconds kTogether{100};
/// How long the store's host waits for others to read why it ended.
constexpr milliseconds kGoodbye{2000};
constexpr milliseconds kPoll{20};

constexpr const char* kVerdict = "verdict";
constexpr const char* kLeft = "left";
constexpr const char* kAnnounced = "announced";

std::string key(std::string_view topic, int rank) {
  return std::string(topic) + "/" + std::to_string(rank);
}

bool is_told(const std::vector<Reading>& deaths) {
  return std::ranges::any_of(deaths, [](const Reading& death) { return death.text.has_value(); });
}

}  // namespace

void RankNotes::beat(std::int64_t count) const {
  of_run_.write(beat_key(place_.members[static_cast<std::size_t>(place_.rank)]),
                std::to_string(count));
}

void RankNotes::enter(std::int64_t collective, std::string_view what) const {
  texts_.write(key("at", place_.rank), place_text(collective, what));
}

bool RankNotes::has_verdict() const { return texts_.read(kVerdict).text.has_value(); }

std::optional<std::string> RankNotes::lost_one() const { return texts_.read(kLostOne).text; }

void RankNotes::announce(std::int64_t number) const {
  texts_.write(kAnnounced, std::to_string(number));
}

std::int64_t RankNotes::announced() const {
  std::int64_t number = 0;
  if (const std::optional<std::string> text = texts_.read(kAnnounced).text)
    std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

std::vector<Reading> RankNotes::read_of_members(std::string (*key_of)(Member)) const {
  std::vector<Reading> readings;
  readings.reserve(place_.members.size());
  for (const Member member : place_.members) readings.push_back(of_run_.read(key_of(member)));
  return readings;
}

std::vector<Reading> RankNotes::read_all(const std::string& topic) const {
  std::vector<Reading> readings;
  readings.reserve(place_.members.size());
  for (int rank = 0; rank < place_.world(); ++rank)
    readings.push_back(texts_.read(key(topic, rank)));
  return readings;
}

/// Texts that have arrived are not requested again.
void RankNotes::find_missing(const std::string& topic, Texts& texts) const {
  for (const int rank : std::exchange(texts.missing, {})) {
    Reading reading = texts_.read(key(topic, rank));
    if (!reading.is_there) texts.missing.push_back(rank);
    if (reading.is_foreign()) texts.foreign.push_back(rank);
    if (reading.text) texts.by_rank[static_cast<std::size_t>(rank)] = *std::move(reading.text);
  }
}

RankNotes::Texts RankNotes::exchange(const std::string& topic, const std::string& mine,
                                     Deadline until) const {
  texts_.write(key(topic, place_.rank), mine);
  Texts texts{.by_rank = std::vector<std::string>(static_cast<std::size_t>(place_.world())),
              .missing = std::vector<int>(static_cast<std::size_t>(place_.world())),
              .foreign = {}};
  std::iota(texts.missing.begin(), texts.missing.end(), 0);
  for (Pauses pauses; true; pauses.pause()) {
    // Asked before the texts are read: what a rank wrote before it ended the group still counts.
    texts.had_verdict = has_verdict();
    const bool is_over =
        texts.had_verdict || lost_one() || std::chrono::steady_clock::now() > until;
    find_missing(topic, texts);
    if (texts.missing.empty() || !texts.foreign.empty() || is_over) return texts;
  }
}

std::string RankNotes::end_for(const std::string& reason) const {
  return texts_.decide(kVerdict, reason);
}

std::string RankNotes::end_in(std::int64_t number, const std::string& error) const {
  if (has_verdict()) return end_for(error);
  const std::string missing = missing_ranks(examine(), number);
  return end_for(missing.empty() ? error : missing);
}

/// Listens until a lifeline reports a death, and others that died with it; else for kListen, during
/// which all living ranks give a sign.
std::vector<Reading> RankNotes::listen_for_deaths() const {
  const Deadline until = from_now(kListen);
  std::vector<Reading> deaths;
  do {
    std::this_thread::sleep_for(kPoll);
    deaths = read_of_members(death_key);
  } while (!is_told(deaths) && std::chrono::steady_clock::now() < until);
  if (!is_told(deaths)) return deaths;
  std::this_thread::sleep_for(kTogether);
  return read_of_members(death_key);
}

std::vector<RankState> RankNotes::examine() const {
  const std::vector<Reading> before = read_of_members(beat_key);
  const std::vector<Reading> deaths = listen_for_deaths();
  const std::vector<Reading> after = read_of_members(beat_key);
  const std::vector<Reading> places = read_all("at");
  std::vector<RankState> ranks(static_cast<std::size_t>(place_.world()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    RankState& state = ranks[rank];
    const bool beats_are_foreign = before[rank].is_foreign() || after[rank].is_foreign();
    state.is_foreign = beats_are_foreign || places[rank].is_foreign();
    const bool has_beaten = rank == static_cast<std::size_t>(place_.rank) || beats_are_foreign ||
                            before[rank].text != after[rank].text;
    state.is_alive = is_told(deaths) ? !deaths[rank].text : has_beaten;
    if (places[rank].text) take_place(*places[rank].text, state);
  }
  return ranks;
}

/// Whether all ranks, or strangers in their place, have said goodbye.
bool RankNotes::all_left() const {
  for (int rank = 0; rank < place_.world(); ++rank)
    if (!texts_.has(key(kLeft, rank))) return false;
  return true;
}

/// If the store ends with this rank, the others get time to read it first, those still on their way
/// as well. This needs no trust, so any text counts: also from a rank with another token, which
/// reads why.
void RankNotes::linger_before_exit() const {
  texts_.write(key(kLeft, place_.rank), "1");
  if (!place_.hosts_store) return;
  const Deadline until = from_now(kGoodbye);
  while (!all_left() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kPoll);
}

}  // namespace accrue::distributed
