#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/descriptor.h"

namespace accrue::distributed {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// The stream addresses for a name or an address, best first; at least one. Throws a
/// std::runtime_error with the resolver's message if there is none.
Addresses addresses_of(const std::string& host, std::uint16_t port);

/// A stream socket for `address`, with additional `flags` of ::socket(); none, with errno, if the
/// system fails to create one.
Descriptor socket_for(const addrinfo& address, int flags = 0);

/// An end of a connection: a numeric address, and a port.
struct Place {
  std::string host;
  std::uint16_t port = 0;
};

/// A place for people: an IPv6 address stands in brackets.
std::string place_text(const std::string& host, std::uint16_t port);

/// A place as text for other ranks.
std::string to_text(const Place& place);
/// Reads back what to_text() wrote; none if the text is something else.
std::optional<Place> place_from_text(const std::string& text);

/// This machine's end of a socket. Throws a std::system_error if it has none.
Place place_of(const Descriptor& socket);
/// A socket that starts to connect to `place`, without waiting; none if that is not a place.
Descriptor connecting_to(const Place& place);

/// Whether all addresses of `host` are on the loopback interface, which no other machine reaches.
/// False if it has no address.
bool is_loopback(const std::string& host);

}  // namespace accrue::distributed
