#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace accrue::distributed {

/// A connection to the key-value store in which the ranks of a run meet. Each kind of store has its
/// own client; what they write there is the same.
///
/// Every call may block for as long as the store does not answer, and throws if the store is gone.
/// Calls from several threads are serialized.
class StoreClient {
 public:
  /// The longest value that is written or read.
  static constexpr std::size_t kLongest = std::size_t{4} << 20;

  StoreClient() = default;
  virtual ~StoreClient() = default;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// The address of this machine by which it reaches the store.
  virtual std::string own_address() = 0;
  /// Does not wait for an answer. Later calls of this client see the value. Throws a usage Error
  /// for a value that is longer than kLongest, or than this store accepts.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Whether `key` has a value. Throws a runtime Error if the listening program is not a store.
  virtual bool has(const std::string& key) = 0;
  /// The value of `key`, which exists; none if it is longer than kLongest.
  virtual std::optional<std::string> get(const std::string& key) = 0;
  /// Writes `value` if the present value is `expected`, or if that is empty and there is none.
  /// Returns the resulting value; none if that is longer than kLongest.
  virtual std::optional<std::string> compare_set(const std::string& key,
                                                 const std::string& expected,
                                                 const std::string& value) = 0;
};

}  // namespace accrue::distributed
