#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/group/network/addresses.h"
#include "distributed/group/network/run_until.h"

namespace accrue::distributed {

struct EtcdOptions {
  /// A request that no member answered for this long has failed.
  std::chrono::milliseconds patience{60'000};
  /// The time for an answer of one member, until the next one is asked. Doubles each time that all
  /// were asked in vain, up to eight times as long.
  std::chrono::milliseconds attempt{1000};
  /// How long the run's keys stay once none of its ranks renews their lease, and how often one
  /// does.
  std::chrono::seconds lease{3600};
  std::chrono::milliseconds renew_every{300'000};
};

/// The members of an etcd cluster as one process knows them, and the folder and lease of its run.
/// Shared by the process's clients, which may use it from several threads.
class EtcdCluster {
 public:
  /// The members are equal; `rank` asks another one first than the ranks beside it. All keys of the
  /// run are below `folder`, from which its lease has its number: the run's ranks share it, so that
  /// what a rank wrote stays after the rank is gone.
  EtcdCluster(std::vector<Place> members, std::string folder, int rank, EtcdOptions options = {});

  const EtcdOptions& options() const { return options_; }
  const std::vector<Place>& members() const { return members_; }
  const std::string& folder() const { return folder_; }
  std::int64_t lease() const { return lease_; }

  /// The number of the member to ask.
  std::size_t current() const;
  std::string url(std::size_t member) const;
  /// From now on the next one is asked, unless another client has moved on already. If
  /// `keeps_earlier`, the reason of an earlier failure stays.
  void leave(std::size_t member, const std::string& reason, bool keeps_earlier = false);
  void answered(std::size_t member);
  /// The last failure of each member, for messages: "a:2379 (Connection refused), b:2379 (...)".
  std::string failures() const;

  /// Whether the caller is to renew the lease now: true for one of several callers.
  bool takes_renewal();
  /// It was not renewed: the next caller is to do it.
  void return_renewal();

 private:
  std::vector<Place> members_;
  std::string folder_;
  std::int64_t lease_;
  EtcdOptions options_;
  mutable std::mutex mutex_;
  std::size_t current_;
  std::vector<std::string>
      failures_;        ///< by member; empty: it answered last time, or was not asked
  Deadline renewal_{};  ///< when the lease is renewed next
};

}  // namespace accrue::distributed
