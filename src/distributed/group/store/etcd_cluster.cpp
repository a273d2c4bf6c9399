#include "distributed/group/store/etcd_cluster.h"

#include <charconv>
#include <utility>

#include "core/checksum.h"

namespace accrue::distributed {
namespace {

/// The same on all ranks of a run, and positive.
std::int64_t lease_of(const std::string& folder) {
  const std::string digits = checksum_of(folder);
  std::uint64_t hash = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return static_cast<std::int64_t>(hash >> 1U | 1U);
}

}  // namespace

EtcdCluster::EtcdCluster(std::vector<Place> members, std::string folder, int rank,
                         EtcdOptions options)
    : members_(std::move(members)),
      folder_(std::move(folder)),
      lease_(lease_of(folder_)),
      options_(options),
      current_(static_cast<std::size_t>(rank) % members_.size()),
      failures_(members_.size()) {}

std::size_t EtcdCluster::current() const {
  const std::scoped_lock lock(mutex_);
  return current_;
}

std::string EtcdCluster::url(std::size_t member) const {
  return "http://" + place_text(members_[member].host, members_[member].port);
}

void EtcdCluster::leave(std::size_t member, const std::string& reason, bool keeps_earlier) {
  const std::scoped_lock lock(mutex_);
  if (!keeps_earlier || failures_[member].empty()) failures_[member] = reason;
  if (current_ == member) current_ = (member + 1) % members_.size();
}

void EtcdCluster::answered(std::size_t member) {
  const std::scoped_lock lock(mutex_);
  failures_[member].clear();
}

std::string EtcdCluster::failures() const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (std::size_t i = 0; i < members_.size(); ++i)
    text += (text.empty() ? "" : ", ") + place_text(members_[i].host, members_[i].port) + " (" +
            (failures_[i].empty() ? "no failure so far" : failures_[i]) + ")";
  return text;
}

bool EtcdCluster::takes_renewal() {
  const std::scoped_lock lock(mutex_);
  const Deadline now = std::chrono::steady_clock::now();
  if (now < renewal_) return false;
  renewal_ = now + options_.renew_every;
  return true;
}

void EtcdCluster::return_renewal() {
  const std::scoped_lock lock(mutex_);
  renewal_ = {};
}

}  // namespace accrue::distributed
