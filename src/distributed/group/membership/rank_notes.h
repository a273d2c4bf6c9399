#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/group/membership/members.h"
#include "distributed/group/membership/post_mortem.h"
#include "distributed/group/network/run_until.h"
#include "distributed/group/store/sealed_texts.h"

namespace accrue::distributed {

/// A rank's place in a group.
struct GroupPlace {
  int rank = 0;
  std::vector<Member> members;  ///< by rank
  bool hosts_store = false;

  int world() const { return static_cast<int>(members.size()); }
};

/// The texts that ranks write into their store, and read there. Only texts of this run's ranks
/// count: strangers may write as well. Every call may block for as long as the store's host does
/// not answer, and throws if the host is gone. Copies act for the same rank over the same
/// connection.
class RankNotes {
 public:
  /// `texts` are the group's. Signs of life belong to the run, under the members' names, because a
  /// process continues to run while its group is rebuilt.
  RankNotes(SealedTexts texts, SealedTexts of_run, GroupPlace place)
      : texts_(std::move(texts)), of_run_(std::move(of_run)), place_(std::move(place)) {}

  void beat(std::int64_t count) const;
  /// Writes where this rank is: the collective that it entered last.
  void enter(std::int64_t collective, std::string_view what) const;
  bool has_verdict() const;
  /// A rank of the group that ended, as a lifeline wrote under kLostOne; none if none is known.
  std::optional<std::string> lost_one() const;
  static constexpr const char* kLostOne = "lost one";
  /// Writes the number that a rank announces, over another rank's.
  void announce(std::int64_t number) const;
  /// The announced number; 0 if there is none.
  std::int64_t announced() const;

  struct Texts {
    std::vector<std::string> by_rank;  ///< empty for those that are missing
    std::vector<int> missing;
    std::vector<int> foreign;  ///< in whose place a stranger wrote
    bool had_verdict = false;  ///< the group had ended before everything was there
    bool is_complete() const { return missing.empty() && foreign.empty(); }
  };
  /// Writes `mine` under `topic` and waits for the texts of the others, until the deadline, a
  /// verdict, the end of a rank's process or a text that is foreign.
  Texts exchange(const std::string& topic, const std::string& mine, Deadline until) const;

  /// Returns why the group ended: the first rank to state a reason decides.
  std::string end_for(const std::string& reason) const;
  /// Ends the group for an error in collective `number`, and finds out which rank is missing.
  std::string end_in(std::int64_t number, const std::string& error) const;
  /// Call it after that, before this process ends: if the store ends with it, the others get a
  /// moment to read why.
  void linger_before_exit() const;

 private:
  void find_missing(const std::string& topic, Texts& texts) const;
  bool all_left() const;
  std::vector<Reading> read_all(const std::string& topic) const;
  std::vector<Reading> read_of_members(std::string (*key_of)(Member)) const;
  std::vector<Reading> listen_for_deaths() const;
  std::vector<RankState> examine() const;

  SealedTexts texts_, of_run_;
  GroupPlace place_;
};

}  // namespace accrue::distributed
