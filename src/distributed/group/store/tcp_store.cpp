#include "distributed/group/store/tcp_store.h"

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "accrue/core/error.h"
#include "core/cause.h"
#include "distributed/group/launch/run_token.h"
#include "distributed/group/network/addresses.h"
#include "distributed/group/network/listening_socket.h"
#include "distributed/group/network/run_until.h"
#include "distributed/group/store/store_owner.h"
#include "distributed/group/store/tcp_client.h"

namespace accrue::distributed {
namespace {

/// More than a heartbeat takes. A host that is silent for longer is gone, and no other takes its
/// place.
constexpr std::chrono::milliseconds kLongestSilence{1200};

std::string place_of_store(const Launch& launch) {
  return place_text(launch.master_addr, launch.master_port);
}

bool hosts_store(const Launch& launch) { return launch.rank == 0 && !launch.agent_hosts_store; }

std::string host_of(const Launch& launch) {
  return launch.agent_hosts_store ? "the launcher's agent" : "rank 0";
}

std::string host_is_gone(const Launch& launch) {
  if (hosts_store(launch))
    return "no answer from the store that this rank hosts at " + place_of_store(launch);
  return "no sign of life from the host of the store (" + host_of(launch) + ", at " +
         place_of_store(launch) + ")";
}

Error not_reached(const Launch& launch, const std::string& reason) {
  return runtime_error(kConnect, "to reach their store at " + place_of_store(launch),
                       host_is_gone(launch) + ": " + reason,
                       "starting rank 0, and MASTER_ADDR, MASTER_PORT and firewalls; the store "
                       "listens on the interface of MASTER_ADDR alone");
}

OpenStore make_connections(const std::string& host, const c10d::TCPStoreOptions& options) {
  const auto client = [&] { return std::make_shared<TcpClient>(host, options.port); };
  // c10d's client waits until the host is there; made later, a new connection would wait for it.
  const auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
  return {.is_hosted_here = options.isServer,
          .longest_silence = kLongestSilence,
          .engines = store,
          .notes = client(),
          .heartbeat = client(),
          .life = client(),
          .engine = client(),
          .device = client()};
}

/// Whether the run's store answers. Throws a usage Error if another run's does.
bool is_open(const Launch& launch) {
  TcpClient client(launch.master_addr, launch.master_port);
  // A store that a launcher's agent hosts serves any run: each has a separate roll call there.
  return launch.agent_hosts_store ? client.answers() : is_owned_by(client, launch);
}

/// Returns when the run's store answers. c10d's client would wait as well, but it takes any store,
/// and if none comes it prints a stack.
void await_store(const Launch& launch, Deadline until, WaitingNote& note) {
  constexpr std::chrono::milliseconds again{50};
  std::string reason = "its host has not stated which run it is of";
  while (std::chrono::steady_clock::now() < until) {
    try {
      if (run_until(std::min(until, note.due()), [launch] { return is_open(launch); })) return;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      reason = cause_of(error);
    }
    if (note.is_due())
      note.say(host_of(launch) + ", which is to host their store (" + reason + ")");
    std::this_thread::sleep_for(again);
  }
  throw not_reached(launch, reason);
}

}  // namespace

OpenStore open_tcp_store(const Launch& launch, std::chrono::milliseconds timeout,
                         WaitingNote& note) {
  require_run_token(launch);
  const Deadline until = from_now(timeout + kLongestSilence);
  if (!hosts_store(launch)) await_store(launch, until, note);
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = hosts_store(launch);
  options.waitWorkers = false;
  options.timeout = timeout;
  // The store would listen on all interfaces, and it does not authenticate.
  if (hosts_store(launch))
    options.masterListenFd = listening_socket(launch.master_addr, launch.master_port).release();
  try {
    OpenStore store = run_until(until, [options, address = launch.master_addr] {
      return make_connections(address, options);
    });
    store.place = place_of_store(launch);
    store.why_gone = [launch] { return host_is_gone(launch); };
    if (store.is_hosted_here) state_owner(*store.notes, launch);
    return store;
  } catch (const std::exception& error) {
    const std::string reason = cause_of(error);
    if (hosts_store(launch))
      throw runtime_error(kConnect, "to host their store at " + place_of_store(launch), reason,
                          "another MASTER_PORT");
    throw not_reached(launch, reason);
  }
}

}  // namespace accrue::distributed
