#include "distributed/group/launch/master_addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

constexpr auto kNone = std::string_view::npos;

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == kNone;
}

/// Letters, digits, dots and hyphens; IPv4 addresses have this form as well.
bool is_host_name(std::string_view text) {
  return !text.empty() && is_letter_or_digit(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
  });
}

/// Perhaps with its interface: fe80::1%eth0.
bool is_ipv6(std::string_view text) {
  in6_addr address{};
  const std::string figures(text.substr(0, text.find('%')));
  return ::inet_pton(AF_INET6, figures.c_str(), &address) == 1;
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* white = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(white);
  if (begin == kNone) return {};
  return text.substr(begin, text.find_last_not_of(white) + 1 - begin);
}

struct HostAndPort {
  std::string_view host, port;
};

/// The host, and the port if there is one, in the forms that people write instead of a host: " host
/// ", "tcp://host:port/", "host:port", "[::1]:port".
HostAndPort parts_of(std::string_view text) {
  text = trimmed(text);
  if (const std::size_t scheme = text.find("://"); scheme != kNone) text.remove_prefix(scheme + 3);
  text = text.substr(0, text.find('/'));
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == kNone) return {};
    const std::string_view rest = text.substr(end + 1);
    return {text.substr(1, end - 1), rest.starts_with(':') ? rest.substr(1) : rest};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == kNone || is_ipv6(text)) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::string suggestion_for(std::string_view text) {
  const auto [host, port] = parts_of(text);
  if (!is_host(host) || (!port.empty() && !is_number(port)))
    return "the name or the address by which all ranks reach the machine that runs rank 0";
  return "MASTER_ADDR=" + std::string(host) +
         (port.empty() ? "" : " and MASTER_PORT=" + std::string(port));
}

}  // namespace

bool is_host(std::string_view text) { return is_host_name(text) || is_ipv6(text); }

void check_master_addr(std::string_view text) {
  if (is_host(text)) return;
  throw usage_error("read the launcher's environment",
                    "MASTER_ADDR to be a host name or an address, and nothing else",
                    "'" + std::string(text) + "'", suggestion_for(text));
}

}  // namespace accrue::distributed
