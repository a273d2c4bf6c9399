#include "distributed/group/launch/store_url.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "accrue/core/error.h"
#include "distributed/group/launch/master_addr.h"

namespace accrue::distributed {
namespace {

constexpr std::uint16_t kPortOfEtcd = 2379;
constexpr std::string_view kBehindScheme = "://";
constexpr const char* kForm = "ACCRUE_STORE=etcd://HOST:PORT,HOST:PORT,HOST:PORT";

Error refused_url(std::string_view url, const std::string& expected,
                  const std::string& suggestion) {
  return usage_error("read the launcher's environment", expected, "'" + std::string(url) + "'",
                     suggestion);
}

void check_scheme(std::string_view url) {
  const std::string_view scheme = scheme_of(url);
  if (scheme == kEtcd) return;
  if (scheme == "https" || scheme == "etcds")
    throw refused_url(
        url, "ACCRUE_STORE with members that are reached without TLS",
        std::string(kForm) + " in a network of your own; the run token signs what ranks write");
  throw refused_url(url, "ACCRUE_STORE to be etcd:// and members", kForm);
}

/// A member in text: "host", "host:port" or "[::1]:port".
struct MemberText {
  std::string_view host, port;
  bool has_port = false;
};

MemberText parts_of_member(std::string_view text) {
  const bool has_brackets = text.starts_with('[');
  const std::size_t end = has_brackets ? text.find(']') : text.find(':');
  if (end == std::string_view::npos)
    return has_brackets ? MemberText() : MemberText{.host = text, .port = {}};
  const std::string_view host = has_brackets ? text.substr(1, end - 1) : text.substr(0, end);
  const std::string_view rest = text.substr(has_brackets ? end + 1 : end);
  if (rest.empty()) return {.host = host, .port = {}};
  return {.host = rest.front() == ':' ? host : "", .port = rest.substr(1), .has_port = true};
}

std::optional<std::uint16_t> port_of_member(const MemberText& member) {
  if (!member.has_port) return kPortOfEtcd;
  std::uint16_t port = 0;
  const char* const end = member.port.data() + member.port.size();
  const auto [read, error] = std::from_chars(member.port.data(), end, port);
  return error == std::errc() && read == end && port > 0 ? std::optional(port) : std::nullopt;
}

Place member_of(std::string_view url, std::string_view text) {
  const MemberText parts = parts_of_member(text);
  const std::optional<std::uint16_t> port = port_of_member(parts);
  if (port && is_host(parts.host)) return {.host = std::string(parts.host), .port = *port};
  throw refused_url(
      url,
      "each member of ACCRUE_STORE to be a host and a port, and '" + std::string(text) + "' is not",
      kForm);
}

bool is_on_this_machine(const Place& member) {
  return member.host == "localhost" || member.host == "::1" || member.host.starts_with("127.");
}

}  // namespace

std::string_view scheme_of(std::string_view url) {
  const std::size_t end = url.find(kBehindScheme);
  return end == std::string_view::npos ? std::string_view() : url.substr(0, end);
}

std::vector<Place> members_of(std::string_view url) {
  check_scheme(url);
  std::string_view rest = url.substr(scheme_of(url).size() + kBehindScheme.size());
  // Said before the password could be taken for a port, and without showing it.
  if (rest.find('@') != std::string_view::npos)
    throw refused_url("etcd://...@...", "ACCRUE_STORE without a user and a password",
                      "members without authentication, for accrue alone; the run token signs what "
                      "ranks write");
  if (rest.ends_with('/')) rest.remove_suffix(1);
  std::vector<Place> members;
  while (true) {
    const std::size_t comma = rest.find(',');
    Place member = member_of(url, rest.substr(0, comma));
    const auto is_same = [&](const Place& other) {
      return other.host == member.host && other.port == member.port;
    };
    if (std::ranges::any_of(members, is_same))
      throw refused_url(url, "each member of ACCRUE_STORE once", kForm);
    members.push_back(std::move(member));
    if (comma == std::string_view::npos) return members;
    rest.remove_prefix(comma + 1);
  }
}

const Place& outer_member(const std::vector<Place>& members) {
  const auto outer = std::ranges::find_if_not(members, is_on_this_machine);
  return outer == members.end() ? members.front() : *outer;
}

}  // namespace accrue::distributed
