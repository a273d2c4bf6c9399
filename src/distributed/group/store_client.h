#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "core/descriptor.h"

namespace accrue::distributed {

/// A connection to a c10d::TCPStore that takes in no more than it says: c10d's own client takes in
/// whatever length a value has. The same keys and values, by the same protocol.
///
/// Every call may block for as long as the store's host does not answer, and throws if the host
/// is gone. Calls from several threads come one after the other.
class StoreClient {
 public:
  /// The longest value that is written or read. The store itself takes twice as much at a time.
  static constexpr std::size_t kLongest = std::size_t{4} << 20;

  /// Connects to a store that is known to be there.
  StoreClient(std::string host, std::uint16_t port);

  /// The address of this machine by which it reaches the store.
  std::string own_address();
  /// Is sent and not answered. Throws a usage Error for a value longer than kLongest.
  void set(const std::string& key, const std::string& value);
  /// True: what listens there answers as a store does.
  bool answers();
  /// Whether somebody wrote under `key`. Throws a runtime Error if what listens there is no store.
  bool has(const std::string& key);
  /// What stands under `key`, which is there; nothing if that is longer than kLongest.
  std::optional<std::string> get(const std::string& key);
  /// Writes `value` where `expected` stands, or where it is empty and nothing does. Returns what
  /// stands there then; nothing if that is longer than kLongest.
  std::optional<std::string> compare_set(const std::string& key, const std::string& expected,
                                         const std::string& value);

 private:
  class Question;
  void connect();
  /// Connects anew if an answer was too long before.
  void ask(const Question& question);
  std::optional<std::string> answer();

  std::string host_;
  std::uint16_t port_;
  std::mutex one_at_a_time_;
  Descriptor socket_;  ///< none: the last answer was too long, and left where it was
};

}  // namespace accrue::distributed
