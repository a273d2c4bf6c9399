#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>

namespace accrue::distributed {

/// Thrown if an answer is longer than HttpClient::kLongest.
struct AnswerTooLong : std::runtime_error {
  AnswerTooLong() : std::runtime_error("an answer of more than the accepted length") {}
};

/// Posts JSON over HTTP, on a connection that is kept (libcurl). Only one thread at a time may use
/// it.
class HttpClient {
 public:
  /// Throws a usage Error if this build, or this machine, has no libcurl.
  HttpClient();

  struct Answer {
    long status = 0;
    std::string body;
  };
  /// A value of StoreClient::kLongest in base64, and what is around it.
  static constexpr std::size_t kLongest = std::size_t{6} << 20;

  /// Throws a std::runtime_error with the reason if there is no whole answer within `timeout`,
  /// which includes the look-up of the name, or `stop` is requested; and AnswerTooLong.
  Answer post(const std::string& url, const std::string& body, std::chrono::milliseconds timeout,
              const std::stop_token& stop);
  /// This machine's end of the connection that was used last; empty: none.
  std::string own_address() const;

 private:
  struct End {
    void operator()(void* connection) const noexcept;
  };
  std::unique_ptr<void, End> connection_;
};

}  // namespace accrue::distributed
