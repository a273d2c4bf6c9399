#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/group/store/store_client.h"

namespace accrue::distributed {

/// How processes that were started together find each other in a store that may have served
/// others before. A launcher that restarts all ranks, as torchrun does if one fails or a machine
/// comes or goes, leaves the texts of the earlier ones, and counts its starts separately on each
/// machine.
///
/// Each process writes a random name under its rank. Once there is one for each rank, rank 0 gives
/// them tickets, with their names and that of the start, and those that live answer. With all
/// answers the start is complete. The names of a complete start are spent: they do not count in a
/// later one. If a name changes because its process died, the new one gets a ticket as well.
///
/// Nothing of it is sealed: its result is the folder of the store in which ranks meet, where the
/// run's token is checked. Strangers who write into the store may keep a start from being
/// complete.
///
/// Blocks and throws as StoreClient does.
class RollCall {
 public:
  /// Runs with different names (Launch::run_id) that share a store have separate roll calls.
  RollCall(std::shared_ptr<StoreClient> client, int rank, int world,
           const std::string& run_id = {});

  struct Status {
    std::optional<std::string> start;    ///< the name of the complete start
    std::optional<std::string> failure;  ///< why rank 0 gave up
  };
  /// Does the next step, once; call it until there is a start, which then stays.
  Status poll();

  /// The last start that was complete.
  std::optional<std::string> complete() const;
  /// The ranks for which no process of this start has come.
  std::vector<int> missing() const;
  /// Rank 0 writes why there is no start for those that have come, and gives them a moment to read
  /// it. Other ranks are not heard.
  void give_up(const std::string& reason);

 private:
  struct Ticket;

  Status call();
  Status answer();
  std::optional<std::string> read(const std::string& key) const;
  std::optional<Ticket> ticket(int rank) const;
  std::optional<std::string> come(int rank, const std::optional<std::string>& complete) const;
  bool all_answered(const std::vector<std::string>& tickets) const;

  std::string key(const char* topic, int rank) const;

  std::shared_ptr<StoreClient> client_;
  std::string folder_;  ///< of the run's roll calls
  int rank_, world_;
  std::string name_;   ///< of this process
  std::string start_;  ///< rank 0's name for the start
  bool has_come_ = false;
  std::optional<std::string> found_;  ///< the start that look() returned
};

}  // namespace accrue::distributed
