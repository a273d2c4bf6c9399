#include "distributed/group/store/etcd_store.h"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "distributed/group/launch/run_token.h"
#include "distributed/group/launch/store_url.h"
#include "distributed/group/network/pauses.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// An election takes 1 to 2 s with etcd's defaults, and a request that was on its way to the lost
/// leader up to two attempts more; as much again for a machine that is busy.
constexpr milliseconds kLongestElection{10'000};

/// Runs with other names have their own keys.
std::string folder_of_run(const Launch& launch) { return "accrue/" + launch.run_id + "/"; }

void require_run_token_for(const Launch& launch, const std::vector<Place>& members) {
  for (const Place& member : members) {
    Launch at = launch;
    at.master_addr = member.host;
    require_run_token(at);
  }
}

std::string no_answer(const EtcdCluster& cluster) {
  return "no answer from the etcd members: " + cluster.failures();
}

/// Throws a usage Error if the members answer, and refuse.
void await_members(EtcdCluster& cluster, EtcdClient& client, Deadline until, WaitingNote& note,
                   const std::string& place) {
  while (true) {
    try {
      return client.await_answer(std::min(until, note.due()));
    } catch (const EtcdRefusal& refusal) {
      throw usage_error(kConnect, "etcd members at " + place + " that serve all clients",
                        refusal.what(),
                        "etcd without authentication, for accrue alone; the run token signs what "
                        "ranks write");
    } catch (const std::exception&) {
      if (std::chrono::steady_clock::now() >= until)
        throw runtime_error(kConnect, "to reach their store at " + place, no_answer(cluster),
                            "etcdctl endpoint status --cluster, ACCRUE_STORE and firewalls; most "
                            "of the members have to run, etcd 3.4 or later");
    }
    if (note.is_due()) note.say("their store (" + no_answer(cluster) + ")");
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> EtcdStore::clone() {
  return c10::make_intrusive<EtcdStore>(client_, timeout_);
}

void EtcdStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  client_->set(key, {value.begin(), value.end()});
}

std::vector<std::uint8_t> EtcdStore::get(const std::string& key) {
  wait({key});
  const std::optional<std::string> value = client_->get(key);
  if (!value) throw std::runtime_error("the value of '" + key + "' is gone, or too long");
  return {value->begin(), value->end()};
}

std::int64_t EtcdStore::add(const std::string& key, std::int64_t value) {
  return client_->add(key, value);
}

bool EtcdStore::deleteKey(const std::string& key) { return client_->remove(key); }

bool EtcdStore::check(const std::vector<std::string>& keys) {
  return std::ranges::all_of(keys, [&](const std::string& key) { return client_->has(key); });
}

std::int64_t EtcdStore::getNumKeys() { return client_->count(""); }

void EtcdStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void EtcdStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const Deadline until = from_now(timeout);
  Pauses pauses;
  for (const std::string& key : keys)
    while (!client_->has(key)) {
      if (timeout != kNoTimeout && std::chrono::steady_clock::now() >= until)
        throw std::runtime_error("nothing stands in the store under '" + key + "' after " +
                                 format_seconds(std::chrono::duration<double>(timeout).count()));
      pauses.pause();
    }
}

OpenStore open_etcd_store(const Launch& launch, milliseconds timeout, WaitingNote& note) {
  const std::vector<Place> members = members_of(launch.store);
  require_run_token_for(launch, members);
  const auto cluster = std::make_shared<EtcdCluster>(members, folder_of_run(launch), launch.rank,
                                                     EtcdOptions{.patience = timeout});
  const auto client = [&] { return std::make_shared<EtcdClient>(cluster); };
  const auto notes = client();
  await_members(*cluster, *notes, from_now(timeout), note, launch.store);
  return {.is_hosted_here = false,
          .place = launch.store,
          .why_gone = [cluster] { return no_answer(*cluster); },
          .longest_silence = kLongestElection,
          .engines = c10::make_intrusive<EtcdStore>(client(), timeout),
          .notes = notes,
          .heartbeat = client(),
          .life = client(),
          .engine = client(),
          .device = client()};
}

}  // namespace accrue::distributed
