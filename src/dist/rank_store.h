#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "accrue/dist/launch.h"
#include "post_mortem.h"

namespace accrue::dist {

/// What ranks tell each other beside their collectives: that they live, where they are, and why the
/// group ended. A key-value store that rank 0 or the launcher's agent hosts.
class RankStore {
 public:
  /// Connects, and waits until all ranks did. Throws a runtime Error naming those that did not come
  /// within `timeout`.
  RankStore(const Launch& launch, std::chrono::milliseconds timeout);
  ~RankStore();
  RankStore(const RankStore&) = delete;
  RankStore& operator=(const RankStore&) = delete;

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  void enter(std::int64_t collective, std::string_view what);
  /// All ranks' texts, by rank. Throws a runtime Error naming those whose text did not come in
  /// time, or the store's host where that is gone.
  std::vector<std::string> gather(std::string_view topic, const std::string& mine);

  /// Why the group ended. The first rank to say so decides; returns what it said. Rank 0 waits a
  /// moment, so that the others can read it.
  std::string end_for(const std::string& reason) noexcept;
  /// The same, of an error in collective `number`: finds out who is missing.
  std::string end_in(std::int64_t number, const std::string& error) noexcept;

 private:
  c10::intrusive_ptr<c10d::Store> connect(const Launch& launch) const;
  std::string key(std::string_view topic, int rank) const;
  std::vector<int> without(std::string_view topic) const;
  /// All ranks' texts under `topic`, by rank; `what` says in errors what they were for.
  std::vector<std::string> exchange(std::string_view topic, const std::string& mine,
                                    std::string_view what);
  /// Until all ranks have set `topic`. Why they did not; empty where they did.
  std::string wait_for_all(std::string_view topic);
  std::optional<std::string> said_before() const;
  std::string host_is_gone() const;
  std::vector<RankState> examine() const;
  void say_goodbye();
  void beat(c10d::Store& store, const std::stop_token& stop) const;

  int rank_, world_;
  bool hosts_store_;
  bool said_goodbye_ = false;
  std::int64_t gathers_ = 0;  ///< so many; each has keys of its own
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::jthread heart_;
};

}  // namespace accrue::dist
