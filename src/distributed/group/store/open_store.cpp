#include "distributed/group/store/open_store.h"

#include <map>
#include <string>

#include "distributed/group/launch/store_url.h"
#include "distributed/group/store/etcd_store.h"
#include "distributed/group/store/tcp_store.h"

namespace accrue::distributed {
namespace {

using Open = OpenStore (*)(const Launch&, std::chrono::milliseconds, WaitingNote&);

}  // namespace

OpenStore open_store(const Launch& launch, std::chrono::milliseconds timeout, WaitingNote& note) {
  static const std::map<std::string, Open> by_scheme{{"", open_tcp_store},
                                                     {kEtcd, open_etcd_store}};
  return by_scheme.at(std::string(scheme_of(launch.store)))(launch, timeout, note);
}

}  // namespace accrue::distributed
