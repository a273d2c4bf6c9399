#include "distributed/group/rendezvous/run_connections.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "distributed/group/store/sealed_store.h"

namespace accrue::distributed {

RunConnections::RunConnections(const Launch& launch, std::chrono::milliseconds timeout,
                               WaitingNote& note)
    : token_(launch.run_token), run_id_(launch.run_id), store_(open_store(launch, timeout, note)) {}

std::string RunConnections::folder(const std::string& part) const {
  return part.empty() ? folder_ : folder_ + "/" + part;
}

SealedTexts RunConnections::texts(const std::shared_ptr<StoreClient>& client,
                                  const std::string& part) const {
  return {client, folder(part), TextSeal(token_, run_)};
}

c10::intrusive_ptr<c10d::Store> RunConnections::store(const std::shared_ptr<StoreClient>& client,
                                                      const std::string& part) const {
  return c10::make_intrusive<SealedStore>(
      c10::make_intrusive<c10d::PrefixStore>(folder(part), store_.engines), texts(client, part));
}

c10::intrusive_ptr<c10d::Store> RunConnections::engine(const std::string& part) const {
  return store(store_.engine, part);
}

c10::intrusive_ptr<c10d::Store> RunConnections::device_engine(const std::string& part) const {
  return store(store_.device, part.empty() ? "device" : part + "/device");
}

}  // namespace accrue::distributed
