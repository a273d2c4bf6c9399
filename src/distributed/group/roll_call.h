#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/group/store_client.h"

namespace accrue::distributed {

/// How processes that were started together find each other in a store that may have served others
/// before. A launcher that starts all ranks anew, as torchrun does where one fails or a machine
/// comes or goes, leaves what those of before wrote, and counts its starts on each machine by
/// itself.
///
/// Each process writes a name that it drew under its rank. Once there is one for each rank, rank 0
/// gives them tickets, with their names and that of the start, and those that live answer. With
/// all answers the start is complete. The names of a complete start are spent: they count in no
/// later one. If a name changes because its process died, the new one gets a ticket as well.
///
/// Nothing of it is sealed: what comes of it is the folder of the store in which ranks meet, and
/// who has the run's token shows there. Strangers who write into the store may keep a start from
/// being complete.
///
/// Blocks and throws as StoreClient does.
class RollCall {
 public:
  /// Runs of different names (Launch::run_id) that share a store call their rolls apart.
  RollCall(std::shared_ptr<StoreClient> client, int rank, int world,
           const std::string& run_id = {});

  struct Look {
    std::optional<std::string> start;    ///< the name of the complete start
    std::optional<std::string> failure;  ///< why rank 0 gave up
  };
  /// Does what is to be done next, once; to be called until there is a start, which then stays.
  Look look();

  /// The last start that was complete.
  std::optional<std::string> complete() const;
  /// The ranks of which no process of this start has come.
  std::vector<int> missing() const;
  /// Rank 0 says to those that have come why there is no start, and gives them a moment to read it.
  /// From others nobody hears.
  void give_up(const std::string& reason);

 private:
  struct Ticket;

  Look call();
  Look answer();
  std::optional<std::string> read(const std::string& key) const;
  std::optional<Ticket> ticket(int rank) const;
  std::optional<std::string> come(int rank, const std::optional<std::string>& complete) const;
  bool all_answered(const std::vector<std::string>& tickets) const;

  std::string key(const char* topic, int rank) const;

  std::shared_ptr<StoreClient> client_;
  std::string folder_;  ///< of the run's rolls
  int rank_, world_;
  std::string name_;   ///< of this process
  std::string start_;  ///< what rank 0 calls the start
  bool has_come_ = false;
  std::optional<std::string> found_;  ///< the start that look() returned
};

}  // namespace accrue::distributed
