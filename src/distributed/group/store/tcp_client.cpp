#include "distributed/group/store/tcp_client.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <torch/csrc/distributed/c10d/TCPStoreBackend.hpp>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "distributed/group/network/addresses.h"

namespace accrue::distributed {
namespace {

namespace tcp = c10d::tcputil;
using c10d::detail::CheckResponseType;
using c10d::detail::QueryType;

/// A socket connected to `address`; none, with errno, if nothing listens there.
Descriptor connected_to(const addrinfo& address) {
  Descriptor socket = socket_for(address);
  if (!socket) return socket;
  return ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0 ? std::move(socket)
                                                                           : Descriptor();
}

}  // namespace

/// A request in the format of c10d's own client.
class TcpClient::Question {
 public:
  explicit Question(QueryType type) { append(type); }

  Question& number(std::uint64_t number) {
    append(number);
    return *this;
  }
  Question& text(const std::string& text) {
    append(std::uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  /// c10d's users see keys without the slash that it puts before them.
  Question& key(const std::string& key) { return text("/" + key); }

  const std::string& bytes() const { return bytes_; }

 private:
  template <class Value>
  void append(Value value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string bytes_;
};

TcpClient::TcpClient(std::string host, std::uint16_t port) : host_(std::move(host)), port_(port) {
  connect();
}

void TcpClient::connect() {
  const Addresses addresses = addresses_of(host_, port_);
  for (const addrinfo* next = addresses.get(); next != nullptr && !socket_; next = next->ai_next)
    socket_ = connected_to(*next);
  if (!socket_) throw std::system_error(errno, std::generic_category());
  // Requests are short, and wait for an answer.
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  tcp::sendValue(socket_.get(), QueryType::VALIDATE, true);
  tcp::sendValue(socket_.get(), c10d::detail::validationMagicNumber);
}

std::string TcpClient::own_address() {
  const std::scoped_lock lock(one_at_a_time_);
  if (!socket_) connect();
  return place_of(socket_).host;
}

void TcpClient::ask(const Question& question) {
  if (!socket_) connect();
  tcp::sendBytes(socket_.get(), question.bytes().data(), question.bytes().size());
}

std::optional<std::string> TcpClient::answer() {
  const auto size = tcp::recvValue<std::uint64_t>(socket_.get());
  if (size > kLongest) {
    socket_ = Descriptor();
    return std::nullopt;
  }
  std::string text(size, '\0');
  tcp::recvBytes(socket_.get(), text.data(), text.size());
  return text;
}

void TcpClient::set(const std::string& key, const std::string& value) {
  if (value.size() > kLongest)
    throw usage_error("write '" + key + "' to the ranks' store",
                      "at most " + std::to_string(kLongest) + " bytes",
                      std::to_string(value.size()), "a shorter text, or a tensor");
  const std::scoped_lock lock(one_at_a_time_);
  ask(Question(QueryType::SET).key(key).text(value));
}

bool TcpClient::has(const std::string& key) {
  const std::scoped_lock lock(one_at_a_time_);
  ask(Question(QueryType::CHECK).number(1).key(key));
  const auto answer = tcp::recvValue<CheckResponseType>(socket_.get());
  if (answer != CheckResponseType::READY && answer != CheckResponseType::NOT_READY)
    throw runtime_error("connect to the other ranks", "their store at " + place_text(host_, port_),
                        "another program, which listens there", "another MASTER_PORT");
  return answer == CheckResponseType::READY;
}

bool TcpClient::answers() {
  has("accrue");
  return true;
}

std::optional<std::string> TcpClient::get(const std::string& key) {
  const std::scoped_lock lock(one_at_a_time_);
  ask(Question(QueryType::GET).key(key));
  return answer();
}

std::optional<std::string> TcpClient::compare_set(const std::string& key,
                                                  const std::string& expected,
                                                  const std::string& value) {
  const std::scoped_lock lock(one_at_a_time_);
  ask(Question(QueryType::COMPARE_SET).key(key).text(expected).text(value));
  return answer();
}

}  // namespace accrue::distributed
