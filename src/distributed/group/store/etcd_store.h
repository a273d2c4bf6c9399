#pragma once

#include "distributed/group/store/etcd_client.h"
#include "distributed/group/store/open_store.h"

namespace accrue::distributed {

/// The keys of a run in an etcd cluster as a store for engines, whose waits ask for the keys again
/// and again, and throw a std::runtime_error once the timeout is over.
class EtcdStore final : public c10d::Store {
 public:
  EtcdStore(std::shared_ptr<EtcdClient> client, std::chrono::milliseconds timeout)
      : Store(timeout), client_(std::move(client)) {}

  c10::intrusive_ptr<c10d::Store> clone() override;

  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  std::shared_ptr<EtcdClient> client_;
};

/// The store of a run in the etcd cluster that ACCRUE_STORE names. Any member that answers serves:
/// the loss of one, and the election of another leader, is a pause.
OpenStore open_etcd_store(const Launch& launch, std::chrono::milliseconds timeout,
                          WaitingNote& note);

}  // namespace accrue::distributed
