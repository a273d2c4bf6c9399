#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "core/descriptor.h"
#include "distributed/group/store/store_client.h"

namespace accrue::distributed {

/// A connection to a c10d::TCPStore that accepts only values of bounded length: c10d's own client
/// accepts any length. The same keys and values, by the same protocol. The store itself accepts
/// twice kLongest at a time.
class TcpClient final : public StoreClient {
 public:
  /// Connects to a store that is known to exist.
  TcpClient(std::string host, std::uint16_t port);

  std::string own_address() override;
  void set(const std::string& key, const std::string& value) override;
  /// True if the listening program answers as a store does.
  bool answers();
  bool has(const std::string& key) override;
  std::optional<std::string> get(const std::string& key) override;
  std::optional<std::string> compare_set(const std::string& key, const std::string& expected,
                                         const std::string& value) override;

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
