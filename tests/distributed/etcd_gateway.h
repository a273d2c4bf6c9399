#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/descriptor.h"
#include "distributed/group/network/addresses.h"
#include "distributed/group/network/listening_socket.h"
#include "distributed/ranks.h"

namespace accrue::distributed::testing {

using nlohmann::json;

/// Keys, values and leases as etcd's HTTP gateway has them: what the members of a cluster agree on.
/// The forms of requests and answers are those of etcd 3.4.23. Keys and values stay in base64.
class FakeEtcd {
 public:
  struct Reply {
    int status = 200;
    std::string body;
  };

  Reply answer(const std::string& path, const std::string& body) {
    const std::scoped_lock lock(mutex_);
    const json request = json::parse(body, nullptr, false);
    if (!request.is_object()) return refused(400, 3, "invalid character");
    if (path == "/v3/kv/put") return put(request);
    if (path == "/v3/kv/range") return {.body = range(request).dump()};
    if (path == "/v3/kv/deleterange") return {.body = erase(request).dump()};
    if (path == "/v3/kv/txn") return transact(request);
    if (path == "/v3/lease/grant") return grant(request);
    if (path == "/v3/lease/keepalive") return renew(request);
    return {.status = 404, .body = "Not Found\n"};
  }

  static Reply refused(int status, int code, const std::string& message) {
    return {.status = status,
            .body = json{{"error", message}, {"message", message}, {"code", code}}.dump()};
  }
  static Reply no_leader() { return refused(503, 14, "etcdserver: no leader"); }

  /// All leases come to their end, with their keys.
  void end_leases() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(values_, [](const auto& item) { return item.second.lease != "0"; });
    leases_.clear();
  }
  /// Lease and its seconds.
  std::map<std::string, std::string> leases() const {
    const std::scoped_lock lock(mutex_);
    return leases_;
  }
  int renewals() const { return renewals_; }
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return values_.size();
  }
  /// The values that were put, in base64, in their order.
  std::vector<std::string> puts() const {
    const std::scoped_lock lock(mutex_);
    return puts_;
  }
  bool all_have_a_lease() const {
    const std::scoped_lock lock(mutex_);
    return std::ranges::all_of(values_, [](const auto& item) { return item.second.lease != "0"; });
  }

 private:
  struct Value {
    std::string value, lease;
    std::int64_t revision = 0, version = 0;
  };

  static std::string text(const json& from, const char* name) {
    const auto found = from.find(name);
    return found == from.end() ? "" : found->get<std::string>();
  }
  bool has_lease(const json& put) const {
    const std::string lease = text(put, "lease");
    return lease.empty() || lease == "0" || leases_.contains(lease);
  }
  void store(const json& put) {
    Value& value = values_[text(put, "key")];
    value = {text(put, "value"), text(put, "lease"), ++revision_, value.version + 1};
    puts_.push_back(value.value);
  }
  Reply put(const json& request) {
    if (!has_lease(request)) return refused(404, 5, "etcdserver: requested lease not found");
    store(request);
    return {.body = json{{"header", header()}}.dump()};
  }
  json header() const { return {{"revision", std::to_string(revision_)}, {"raft_term", "2"}}; }
  json range(const json& request) const {
    json answer{{"header", header()}};
    const auto found = values_.find(text(request, "key"));
    if (found == values_.end()) return answer;
    answer["count"] = "1";
    if (request.value("count_only", false)) return answer;
    json value{{"key", found->first},
               {"mod_revision", std::to_string(found->second.revision)},
               {"version", std::to_string(found->second.version)},
               {"lease", found->second.lease}};
    if (!found->second.value.empty()) value["value"] = found->second.value;
    answer["kvs"] = json::array({value});
    return answer;
  }
  json erase(const json& request) {
    json answer{{"header", header()}};
    if (values_.erase(text(request, "key")) != 0) answer["deleted"] = "1";
    return answer;
  }
  bool holds(const json& condition) const {
    const auto found = values_.find(text(condition, "key"));
    const std::string target = text(condition, "target");
    if (target == "VALUE")
      return found != values_.end() && found->second.value == text(condition, "value");
    const std::int64_t version = found == values_.end() ? 0 : found->second.version;
    const std::int64_t revision = found == values_.end() ? 0 : found->second.revision;
    if (target == "VERSION") return version == std::stoll(text(condition, "version"));
    if (target == "MOD") return revision == std::stoll(text(condition, "mod_revision"));
    throw std::logic_error("no target of a comparison: " + target);
  }
  Reply transact(const json& request) {
    const json& compare = request.at("compare");
    const bool succeeded =
        std::ranges::all_of(compare, [&](const json& condition) { return holds(condition); });
    const json& requests = request.at(succeeded ? "success" : "failure");
    for (const json& one : requests)
      if (one.contains("request_put") && !has_lease(one["request_put"]))
        return refused(404, 5, "etcdserver: requested lease not found");
    json answer{{"header", header()}};
    if (succeeded) answer["succeeded"] = true;
    answer["responses"] = json::array();
    for (const json& one : requests) {
      if (one.contains("request_put")) store(one["request_put"]);
      answer["responses"].push_back(one.contains("request_put")
                                        ? json{{"response_put", json::object()}}
                                        : json{{"response_range", range(one["request_range"])}});
    }
    return {.body = answer.dump()};
  }
  Reply grant(const json& request) {
    const std::string lease = text(request, "ID");
    if (leases_.contains(lease)) return refused(412, 9, "etcdserver: lease already exists");
    leases_[lease] = text(request, "TTL");
    return {.body = json{{"header", header()}, {"ID", lease}, {"TTL", leases_[lease]}}.dump()};
  }
  Reply renew(const json& request) {
    ++renewals_;
    json result{{"header", header()}, {"ID", text(request, "ID")}};
    if (const auto found = leases_.find(text(request, "ID")); found != leases_.end())
      result["TTL"] = found->second;
    return {.body = json{{"result", result}}.dump()};
  }

  mutable std::mutex mutex_;
  std::map<std::string, Value> values_;
  std::map<std::string, std::string> leases_;
  std::vector<std::string> puts_;
  std::int64_t revision_ = 1;
  std::atomic<int> renewals_ = 0;
};

/// What a member does with a request.
enum class Fault {
  none,
  closes,      ///< the connection, before the request is done
  loses,       ///< does it, and closes the connection without an answer
  breaks_off,  ///< does it, and closes the connection in the middle of the answer
  no_leader,   ///< does not do it, and says so
  malformed,   ///< does it, and answers with something that is no JSON
  of_nothing,  ///< does it, and answers with JSON that is not etcd's
  too_long,    ///< does it, and answers with more than anybody reads
  other_page,  ///< does not do it, and answers as another program would
  silent,      ///< does not do it, and does not answer
  no_space,    ///< does not do it, as no member would
};

/// A member of a cluster: an HTTP server on the loopback interface, at a port that the system
/// chose.
class FakeMember {
 public:
  /// What to do with each request, which are counted from 1. Called by the threads of connections.
  using FaultOf = std::function<Fault(int number)>;

  explicit FakeMember(FakeEtcd& etcd, FaultOf fault_of = nullptr)
      : etcd_(etcd), fault_of_(std::move(fault_of)), listening_(listening_socket("127.0.0.1", 0)) {
    ::listen(listening_.get(), SOMAXCONN);
    port_ = accrue::testing::port_of(listening_.get());
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~FakeMember() { stop(); }
  FakeMember(const FakeMember&) = delete;
  FakeMember& operator=(const FakeMember&) = delete;

  /// From now on connections are refused, as after the end of its process.
  void stop() {
    if (!accepting_.joinable()) return;
    is_over_ = true;
    ::shutdown(listening_.get(), SHUT_RDWR);
    accepting_.join();
    listening_ = Descriptor();
    const std::scoped_lock lock(mutex_);
    for (Connection& connection : connections_) ::shutdown(connection.socket.get(), SHUT_RDWR);
    for (Connection& connection : connections_) connection.thread.join();
    connections_.clear();
  }

  Place place() const { return {.host = "127.0.0.1", .port = port_}; }
  std::string place_in_words() const { return place_text("127.0.0.1", port_); }
  int requests() const { return requests_; }
  int faults() const { return faults_; }

 private:
  struct Connection {
    Descriptor socket;
    std::thread thread;
  };
  struct Request {
    std::string path, body;
  };

  void accept_all() {
    while (!is_over_) {
      Descriptor socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) continue;
      const std::scoped_lock lock(mutex_);
      if (is_over_) return;
      Connection& connection = connections_.emplace_back();
      connection.socket = std::move(socket);
      connection.thread = std::thread([this, number = connection.socket.get()] { serve(number); });
    }
  }

  static std::optional<Request> next(int socket, std::string& bytes) {
    const auto read_more = [&] {
      char part[4096];
      const auto count = ::recv(socket, part, sizeof part, 0);
      if (count > 0) bytes.append(part, static_cast<std::size_t>(count));
      return count > 0;
    };
    std::size_t end = 0;
    while ((end = bytes.find("\r\n\r\n")) == std::string::npos)
      if (!read_more()) return std::nullopt;
    const std::string head = bytes.substr(0, end);
    const std::size_t length = std::stoul(head.substr(head.find("Content-Length: ") + 16));
    while (bytes.size() < end + 4 + length)
      if (!read_more()) return std::nullopt;
    const std::size_t path = head.find(' ') + 1;
    Request request{.path = head.substr(path, head.find(' ', path) - path),
                    .body = bytes.substr(end + 4, length)};
    bytes.erase(0, end + 4 + length);
    return request;
  }

  static bool send_all(int socket, const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const auto count = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return true;
  }
  static std::string page(const FakeEtcd::Reply& reply) {
    return "HTTP/1.1 " + std::to_string(reply.status) +
           " As It Is\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body;
  }

  /// Whether the connection goes on.
  bool reply(int socket, const Request& request, Fault fault) {
    constexpr std::size_t too_long = std::size_t{7} << 20;
    if (fault == Fault::closes) return false;
    if (fault == Fault::silent) return wait_for_end(socket);
    if (fault == Fault::no_leader) return send_all(socket, page(FakeEtcd::no_leader()));
    if (fault == Fault::no_space)
      return send_all(socket,
                      page(FakeEtcd::refused(429, 8, "etcdserver: mvcc: database space exceeded")));
    if (fault == Fault::other_page)
      return send_all(socket, page({.status = 404, .body = "<html>Not Found</html>"}));
    const FakeEtcd::Reply done = etcd_.answer(request.path, request.body);
    const std::string whole = page(done);
    switch (fault) {
      case Fault::loses:
        return false;
      case Fault::breaks_off:
        send_all(socket, whole.substr(0, whole.size() - done.body.size() / 2));
        return false;
      case Fault::malformed:
        return send_all(socket, page({.body = "{\"header\":"}));
      case Fault::of_nothing:
        return send_all(
            socket,
            page(
                {.body =
                     R"({"kvs":7,"count":1,"result":"no","deleted":[],"succeeded":"yes","responses":{}})"}));
      case Fault::too_long:
        return send_all(socket, page({.body = std::string(too_long, ' ')}));
      default:
        return send_all(socket, whole);
    }
  }
  /// Until the client, or this member, ends the connection.
  static bool wait_for_end(int socket) {
    char byte = 0;
    ::recv(socket, &byte, 1, 0);
    return false;
  }

  void serve(int socket) {
    std::string bytes;
    while (const std::optional<Request> request = next(socket, bytes)) {
      const int number = ++requests_;
      const Fault fault = fault_of_ ? fault_of_(number) : Fault::none;
      if (fault != Fault::none) ++faults_;
      if (!reply(socket, *request, fault)) break;
    }
    ::shutdown(socket, SHUT_RDWR);
  }

  FakeEtcd& etcd_;
  FaultOf fault_of_;
  Descriptor listening_;
  std::uint16_t port_ = 0;
  std::atomic<bool> is_over_ = false;
  std::atomic<int> requests_ = 0, faults_ = 0;
  std::mutex mutex_;
  std::list<Connection> connections_;
  std::thread accepting_;
};

/// Three members of a cluster. The first one has the faults.
struct FakeCluster {
  explicit FakeCluster(const FakeMember::FaultOf& fault_of = nullptr)
      : members{std::make_shared<FakeMember>(etcd, fault_of), std::make_shared<FakeMember>(etcd),
                std::make_shared<FakeMember>(etcd)} {}

  std::vector<Place> places() const {
    std::vector<Place> places;
    for (const auto& member : members) places.push_back(member->place());
    return places;
  }
  std::string url() const {
    std::string text;
    for (const auto& member : members)
      text += (text.empty() ? "etcd://" : ",") + member->place_in_words();
    return text;
  }

  FakeEtcd etcd;
  std::vector<std::shared_ptr<FakeMember>> members;
};

}  // namespace accrue::distributed::testing
