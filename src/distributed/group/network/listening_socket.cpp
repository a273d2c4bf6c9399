#include "distributed/group/network/listening_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "distributed/group/network/addresses.h"

namespace accrue::distributed {
namespace {

constexpr const char* kHost = "host the ranks' store";

/// The addresses at which this machine listens.
Addresses places_of(const std::string& host, std::uint16_t port) {
  try {
    return addresses_of(host, port);
  } catch (const std::runtime_error& error) {
    throw usage_error(kHost, "MASTER_ADDR to be a name or an address of rank 0's machine",
                      error.what(), "the address by which the other ranks reach this machine");
  }
}

/// A socket bound to `address`; none, with errno, if it cannot be bound.
Descriptor bound_to(const addrinfo& address) {
  Descriptor socket = socket_for(address);
  if (!socket) return socket;
  // Makes a port free that an earlier run left a moment ago.
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return ::bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0 ? std::move(socket)
                                                                        : Descriptor();
}

}  // namespace

Descriptor listening_socket(const std::string& host, std::uint16_t port) {
  const Addresses addresses = places_of(host, port);
  int reason = 0;
  for (const addrinfo* next = addresses.get(); next != nullptr; next = next->ai_next) {
    if (Descriptor socket = bound_to(*next)) return socket;
    // An address in use is a better reason than one that is on another machine.
    if (reason == 0 || errno == EADDRINUSE) reason = errno;
  }
  if (reason == EADDRNOTAVAIL)
    throw usage_error(kHost, "MASTER_ADDR to be an address of the machine that runs rank 0",
                      "'" + host + "', which is none of this machine's",
                      "the address by which the other ranks reach this machine");
  throw runtime_error(kHost, "to listen at " + place_text(host, port),
                      std::generic_category().message(reason),
                      "another MASTER_PORT, or to join the run whose store is there another RANK");
}

}  // namespace accrue::distributed
