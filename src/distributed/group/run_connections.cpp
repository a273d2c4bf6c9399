#include "distributed/group/run_connections.h"

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "accrue/core/error.h"
#include "core/cause.h"
#include "distributed/group/addresses.h"
#include "distributed/group/listening_socket.h"
#include "distributed/group/run_token.h"
#include "distributed/group/run_until.h"
#include "distributed/group/sealed_store.h"
#include "distributed/group/store_owner.h"

namespace accrue::distributed {
namespace {

struct Made {
  c10::intrusive_ptr<c10d::Store> host;
  std::shared_ptr<StoreClient> notes, heartbeat, life, engine, device;
};

Made make_connections(const std::string& host, const c10d::TCPStoreOptions& options) {
  const auto client = [&] { return std::make_shared<StoreClient>(host, options.port); };
  // c10d's client waits until the host is there; made later, a new connection would wait for it.
  const auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
  return {store, client(), client(), client(), client(), client()};
}

/// Whether the run's store answers. Throws a usage Error if another run's does.
bool is_open(const Launch& launch) {
  StoreClient client(launch.master_addr, launch.master_port);
  // A store that a launcher's agent hosts serves any run: each has a separate roll call there.
  return launch.agent_hosts_store ? client.answers() : is_owned_by(client, launch);
}

}  // namespace

RunConnections::RunConnections(const Launch& launch, std::chrono::milliseconds timeout,
                               WaitingNote& note)
    : hosts_the_store_(launch.rank == 0 && !launch.agent_hosts_store),
      agent_hosts_(launch.agent_hosts_store),
      token_(launch.run_token),
      run_id_(launch.run_id),
      place_(place_text(launch.master_addr, launch.master_port)) {
  require_run_token(launch);
  connect(launch, timeout, note);
}

Error RunConnections::not_reached(const std::string& reason) const {
  return runtime_error(kConnect, "to reach their store at " + place_,
                       host_is_gone() + ": " + reason,
                       "starting rank 0, and MASTER_ADDR, MASTER_PORT and firewalls; the store "
                       "listens on the interface of MASTER_ADDR alone");
}

/// Returns when the run's store answers. c10d's client would wait as well, but it takes any store,
/// and if none comes it prints a stack.
void RunConnections::await_store(const Launch& launch, Deadline until, WaitingNote& note) const {
  constexpr std::chrono::milliseconds again{50};
  const std::string host = agent_hosts_ ? "the launcher's agent" : "rank 0";
  std::string reason = "its host has not stated which run it is of";
  while (std::chrono::steady_clock::now() < until) {
    try {
      if (run_until(std::min(until, note.due()), [launch] { return is_open(launch); })) return;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      reason = cause_of(error);
    }
    if (note.is_due()) note.say(host + ", which is to host their store (" + reason + ")");
    std::this_thread::sleep_for(again);
  }
  throw not_reached(reason);
}

void RunConnections::connect(const Launch& launch, std::chrono::milliseconds timeout,
                             WaitingNote& note) {
  const Deadline until = from_now(timeout + kAnswer);
  if (!hosts_the_store_) await_store(launch, until, note);
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = hosts_the_store_;
  options.waitWorkers = false;
  options.timeout = timeout;
  // The store would listen on all interfaces, and it does not authenticate.
  if (hosts_the_store_)
    options.masterListenFd = listening_socket(launch.master_addr, launch.master_port).release();
  try {
    Made made = run_until(until, [options, address = launch.master_addr] {
      return make_connections(address, options);
    });
    host_ = std::move(made.host);
    notes_ = std::move(made.notes);
    heartbeat_ = std::move(made.heartbeat);
    life_ = std::move(made.life);
    engine_ = std::move(made.engine);
    device_ = std::move(made.device);
    if (hosts_the_store_) state_owner(*notes_, launch);
  } catch (const std::exception& error) {
    const std::string reason = cause_of(error);
    if (hosts_the_store_)
      throw runtime_error(kConnect, "to host their store at " + place_, reason,
                          "another MASTER_PORT");
    throw not_reached(reason);
  }
}

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
      c10::make_intrusive<c10d::PrefixStore>(folder(part), host_), texts(client, part));
}

c10::intrusive_ptr<c10d::Store> RunConnections::engine(const std::string& part) const {
  return store(engine_, part);
}

c10::intrusive_ptr<c10d::Store> RunConnections::device_engine(const std::string& part) const {
  return store(device_, part.empty() ? "device" : part + "/device");
}

std::string RunConnections::host_is_gone() const {
  if (hosts_the_store_) return "no answer from the store that this rank hosts at " + place_;
  return std::string("no sign of life from the host of the store (") +
         (agent_hosts_ ? "the launcher's agent" : "rank 0") + ", at " + place_ + ")";
}

}  // namespace accrue::distributed
