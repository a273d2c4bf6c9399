#include "distributed/group/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <stdexcept>

namespace accrue::distributed {
namespace {

bool is_on_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    constexpr std::uint32_t first_byte = 24;
    const auto& place = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(place.sin_addr.s_addr) >> first_byte == IN_LOOPBACKNET;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace

Addresses addresses_of(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw std::runtime_error("'" + host + "': " + ::gai_strerror(error));
  return {found, &::freeaddrinfo};
}

bool is_loopback(const std::string& host) {
  try {
    const Addresses addresses = addresses_of(host, 0);
    for (const addrinfo* next = addresses.get(); next != nullptr; next = next->ai_next)
      if (!is_on_loopback(*next->ai_addr)) return false;
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace accrue::distributed
