#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "distributed/group/post_mortem.h"
#include "distributed/group/run_until.h"

namespace accrue::distributed {

/// What ranks write into their store, and read there. Every call may block for as long as the
/// store's host does not answer, and throws where the host is gone. Copies speak for the same rank
/// through the same connection.
class RankNotes {
 public:
  RankNotes(c10::intrusive_ptr<c10d::Store> store, int rank, int world, bool hosts_store)
      : store_(std::move(store)), rank_(rank), world_(world), hosts_store_(hosts_store) {}

  void beat(std::int64_t count) const;
  /// Says where this rank is: the collective that it entered last.
  void enter(std::int64_t collective, std::string_view what) const;
  bool has_verdict() const;

  struct Texts {
    std::vector<std::string> by_rank;  ///< empty where some are missing
    std::vector<int> missing;
  };
  /// Says `mine` under `topic` and waits for what the others say, until the deadline or a verdict.
  Texts exchange(const std::string& topic, const std::string& mine, Deadline until) const;

  /// Returns why the group ended: the first rank to say so decides. The store's host waits a
  /// moment, so that the others can read it.
  std::string end_for(const std::string& reason) const;
  /// Ends the group for an error in collective `number`, and finds out who is missing.
  std::string end_in(std::int64_t number, const std::string& error) const;

 private:
  std::vector<int> without(const std::string& topic) const;
  std::vector<std::string> beats() const;
  std::vector<RankState> examine() const;
  void say_goodbye() const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, world_;
  bool hosts_store_;
};

}  // namespace accrue::distributed
