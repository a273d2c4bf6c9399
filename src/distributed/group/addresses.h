#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

namespace accrue::distributed {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// The addresses for streams that a name or an address stands for, best first; at least one. Throws
/// a std::runtime_error with the resolver's words where it stands for none.
Addresses addresses_of(const std::string& host, std::uint16_t port);

/// Whether all that `host` stands for is the loopback interface, which no other machine reaches.
/// False for what stands for nothing.
bool is_loopback(const std::string& host);

}  // namespace accrue::distributed
