#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/descriptor.h"

namespace accrue::distributed {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// The addresses for streams that a name or an address stands for, best first; at least one. Throws
/// a std::runtime_error with the resolver's words where it stands for none.
Addresses addresses_of(const std::string& host, std::uint16_t port);

/// A socket for streams to or from `address`, with `flags` of ::socket() beside; none, with errno,
/// where the system gives none.
Descriptor socket_for(const addrinfo& address, int flags = 0);

/// An end of a connection: an address in figures, and a port.
struct Place {
  std::string host;
  std::uint16_t port = 0;
};

/// A place for people: an address of IPv6 stands in brackets.
std::string place_text(const std::string& host, std::uint16_t port);

/// A place as ranks tell it each other.
std::string to_text(const Place& place);
/// Reads back what to_text() wrote; none if that is something else.
std::optional<Place> place_from_text(const std::string& text);

/// This machine's end of a socket. Throws a std::system_error where it has none.
Place place_of(const Descriptor& socket);
/// A socket that is connecting to `place`, which nobody waits for; none if that is no place.
Descriptor connecting_to(const Place& place);

/// Whether all that `host` stands for is the loopback interface, which no other machine reaches.
/// False for what stands for nothing.
bool is_loopback(const std::string& host);

}  // namespace accrue::distributed
