#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/group/post_mortem.h"
#include "distributed/group/run_until.h"
#include "distributed/group/sealed_texts.h"

namespace accrue::distributed {

/// What ranks write into their store, and read there. Only what a rank of this run wrote counts:
/// strangers may write as well. Every call may block for as long as the store's host does not
/// answer, and throws where the host is gone. Copies speak for the same rank through the same
/// connection.
class RankNotes {
 public:
  RankNotes(SealedTexts texts, int rank, int world, bool hosts_store)
      : texts_(std::move(texts)), rank_(rank), world_(world), hosts_store_(hosts_store) {}

  void beat(std::int64_t count) const;
  /// Says where this rank is: the collective that it entered last.
  void enter(std::int64_t collective, std::string_view what) const;
  bool has_verdict() const;

  struct Texts {
    std::vector<std::string> by_rank;  ///< empty for those that are not there
    std::vector<int> missing;
    std::vector<int> foreign;  ///< in whose place somebody else wrote
    bool had_verdict = false;  ///< the group had ended before all of this was there
    bool is_complete() const { return missing.empty() && foreign.empty(); }
  };
  /// Says `mine` under `topic` and waits for what the others say, until the deadline, a verdict or
  /// a text that is foreign.
  Texts exchange(const std::string& topic, const std::string& mine, Deadline until) const;

  /// Returns why the group ended: the first rank to say so decides. The store's host waits a
  /// moment, so that the others can read it.
  std::string end_for(const std::string& reason) const;
  /// Ends the group for an error in collective `number`, and finds out who is missing.
  std::string end_in(std::int64_t number, const std::string& error) const;

 private:
  void look_for_missing(const std::string& topic, Texts& texts) const;
  int count(const std::string& topic) const;
  std::vector<Reading> read_all(const std::string& topic) const;
  std::vector<RankState> examine() const;
  void say_goodbye() const;

  SealedTexts texts_;
  int rank_, world_;
  bool hosts_store_;
};

}  // namespace accrue::distributed
