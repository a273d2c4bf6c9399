#include "distributed/group/network/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

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

Addresses resolved(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw std::runtime_error("'" + host + "': " + ::gai_strerror(error));
  return {found, &::freeaddrinfo};
}

}  // namespace

Addresses addresses_of(const std::string& host, std::uint16_t port) {
  return resolved(host, port, AI_NUMERICSERV);
}

Descriptor socket_for(const addrinfo& address, int flags) {
  return Descriptor(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | flags, address.ai_protocol));
}

std::string place_text(const std::string& host, std::uint16_t port) {
  const bool has_colons = host.find(':') != std::string::npos;
  return (has_colons ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string to_text(const Place& place) { return place.host + " " + std::to_string(place.port); }

std::optional<Place> place_from_text(const std::string& text) {
  const std::size_t at = text.find(' ');
  if (at == std::string::npos) return std::nullopt;
  Place place{.host = text.substr(0, at)};
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data() + at + 1, end, place.port);
  return error == std::errc() && read == end ? std::optional(std::move(place)) : std::nullopt;
}

Place place_of(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::system_error(errno, std::generic_category());
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int error =
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) throw std::runtime_error(::gai_strerror(error));
  return {host.data(), static_cast<std::uint16_t>(std::stoul(port.data()))};
}

/// Names are not looked up, which could take long.
Descriptor connecting_to(const Place& place) {
  const Addresses addresses = resolved(place.host, place.port, AI_NUMERICSERV | AI_NUMERICHOST);
  Descriptor socket = socket_for(*addresses, SOCK_NONBLOCK);
  const bool connects =
      socket && (::connect(socket.get(), addresses->ai_addr, addresses->ai_addrlen) == 0 ||
                 errno == EINPROGRESS);
  return connects ? std::move(socket) : Descriptor();
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
