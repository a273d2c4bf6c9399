#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "core/descriptor.h"

namespace accrue::distributed {

/// A connection to a c10d::TCPStore that accepts only values of bounded length: c10d's own client
/// accepts any length. The same keys and values, by the same protocol.
///
/// Every call may block for as long as the store's host does not answer, and throws if the host is
/// gone. Calls from several threads are serialized.
class StoreClient {
 public:
  /// The longest value that is written or read. The store itself accepts twice that at a time.
  static constexpr std::size_t kLongest = std::size_t{4} << 20;

  /// Connects to a store that is known to exist.
  StoreClient(std::string host, std::uint16_t port);

  /// The address of this machine by which it reaches the store.
  std::string own_address();
  /// Sent without an answer. Throws a usage Error for a value longer than kLongest.
  void set(const std::string& key, const std::string& value);
  /// True if the listening program answers as a store does.
  bool answers();
  /// Whether `key` has a value. Throws a runtime Error if the listening program is not a store.
  bool has(const std::string& key);
  /// The value of `key`, which exists; none if it is longer than kLongest.
  std::optional<std::string> get(const std::string& key);
  /// Writes `value` if the present value is `expected`, or if that is empty and there is none.
  /// Returns the resulting value; none if that is longer than kLongest.
  std::optional<std::string> compare_set(const std::string& key, const std::string& expected,
                                         const std::string& value);

 private:
  class Question;
  void connect();
  /// Connects again if the last answer was too long.
  void ask(const Question& question);
  std::optional<std::string> answer();

  std::string host_;
  std::uint16_t port_;
  std::mutex one_at_a_time_;
  Descriptor socket_;  ///< none: the last answer was too long, and was not read
};

}  // namespace accrue::distributed
