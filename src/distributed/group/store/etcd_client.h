#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "distributed/group/network/http_client.h"
#include "distributed/group/store/etcd_cluster.h"
#include "distributed/group/store/etcd_messages.h"
#include "distributed/group/store/store_client.h"

namespace accrue::distributed {

/// Keys and values of a run in an etcd cluster, by its HTTP gateway. Reads are linearizable. A
/// request that a member does not answer (it is gone, has no leader, or answers something else)
/// goes to the next one, until EtcdOptions::patience is over: every request may be sent twice
/// without another result.
///
/// set() leaves the value to a thread of this client, which writes in the order of the calls; other
/// calls wait until it has. A value that another one of the same key follows at once is not sent.
class EtcdClient final : public StoreClient {
 public:
  /// Throws a usage Error if this build, or this machine, has no libcurl.
  explicit EtcdClient(std::shared_ptr<EtcdCluster> cluster);
  /// Gives what set() left to the thread a moment to be written.
  ~EtcdClient() override;

  /// The longest value that is written: etcd takes requests of 1.5 MiB.
  static constexpr std::size_t kLongestWritten = std::size_t{1} << 20;

  std::string own_address() override;
  /// Throws what an earlier value met if that could not be written.
  void set(const std::string& key, const std::string& value) override;
  bool has(const std::string& key) override;
  /// None also if the key is gone meanwhile.
  std::optional<std::string> get(const std::string& key) override;
  std::optional<std::string> compare_set(const std::string& key, const std::string& expected,
                                         const std::string& value) override;

  /// Adds to the decimal number under `key`, 0 if there is none; returns the sum. Each call counts
  /// once, also if an answer was lost.
  std::int64_t add(const std::string& key, std::int64_t value);
  /// Whether there was a value.
  bool remove(const std::string& key);
  /// How many keys there are below `folder`; empty: all of the run's.
  std::int64_t count(const std::string& folder);
  /// Returns once a member answered. Throws a runtime Error if none does until then, and
  /// EtcdRefusal.
  void await_answer(Deadline until);

 private:
  struct Write {
    std::string key, value;
  };
  class Attempts;

  std::string whole(const std::string& key) const { return cluster_->folder() + key; }
  Deadline patience() const { return from_now(cluster_->options().patience); }
  std::string post(const char* path, const std::string& request, std::chrono::milliseconds timeout,
                   const std::stop_token& stop, std::size_t member);
  template <class Read>
  auto ask(const char* path, const std::string& request, Deadline until,
           const std::stop_token& stop, Read read);
  template <class Read>
  auto ask_after_writes(const char* path, const std::string& request, Read read);
  template <class Read>
  auto ask_with_lease(const char* path, const std::string& request, Deadline until,
                      const std::stop_token& stop, Read read);
  void grant_lease(Deadline until, const std::stop_token& stop);
  void renew_lease(Deadline until, const std::stop_token& stop);
  void put(const Write& write, const std::stop_token& stop);
  void write_on(const std::stop_token& stop);
  void finish_writes(Deadline until);
  void throw_failure();

  std::shared_ptr<EtcdCluster> cluster_;
  std::mutex one_at_a_time_;  ///< for http_
  HttpClient http_;
  std::mutex mutex_;  ///< for what follows
  std::condition_variable_any changed_;
  std::deque<Write> writes_;  ///< the first one is being written if is_writing_
  bool is_writing_ = false;
  std::exception_ptr failure_;  ///< of a write; the next call throws it
  std::jthread writer_;         ///< started by the first set()
};

}  // namespace accrue::distributed
