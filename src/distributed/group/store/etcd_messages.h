#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace accrue::distributed {

/// The JSON of etcd's HTTP gateway (etcd 3.4 and later, /v3/...): protobuf's JSON form, in which
/// keys and values are base64, 64-bit numbers are strings, and what is zero is left out.

/// An answer of a member that works, and by which the request cannot succeed: no other member would
/// answer otherwise.
struct EtcdRefusal : std::runtime_error {
  EtcdRefusal(int status_code, const std::string& message)
      : std::runtime_error(message), code(status_code) {}

  int code;  ///< gRPC's
  bool is_lost_lease() const { return code == kNotFound; }
  bool is_lease_held() const { return code == kFailedPrecondition; }
  static constexpr int kNotFound = 5, kFailedPrecondition = 9;
};

/// A key's value.
struct EtcdValue {
  std::string value;
  std::int64_t revision = 0;  ///< of the key's last change

  bool operator==(const EtcdValue&) const = default;
};

/// Requests, to be posted to the paths below.
std::string range_request(std::string_view key);
std::string presence_request(std::string_view key);
/// How many keys begin with `folder`, which ends with a slash.
std::string count_request(std::string_view folder);
std::string put_request(std::string_view key, std::string_view value, std::int64_t lease);
std::string delete_request(std::string_view key);
/// Puts `value` if the present value is `expected`, or none if that is none; else asks for it.
std::string compare_request(std::string_view key, const std::optional<std::string>& expected,
                            std::string_view value, std::int64_t lease);
/// Puts `value` under `key`, and under `mark`, if `key` is at `revision` (0: not there) and there
/// is no `mark`; else asks for both.
std::string add_request(std::string_view key, std::int64_t revision, std::string_view mark,
                        std::string_view value, std::int64_t lease);
std::string grant_request(std::int64_t lease, std::int64_t seconds);
std::string renewal_request(std::int64_t lease);

inline constexpr const char* kRangePath = "/v3/kv/range";
inline constexpr const char* kPutPath = "/v3/kv/put";
inline constexpr const char* kDeletePath = "/v3/kv/deleterange";
inline constexpr const char* kTransactionPath = "/v3/kv/txn";
inline constexpr const char* kGrantPath = "/v3/lease/grant";
inline constexpr const char* kRenewalPath = "/v3/lease/keepalive";

/// Answers. Each reader throws a std::runtime_error for bytes that are no such answer.
///
/// Throws EtcdRefusal for an error that another member would answer as well, and a
/// std::runtime_error for one that another member may not have: no leader, too many requests, or a
/// page that is not etcd's.
void check_answer(long status, const std::string& body);
/// True for any answer of etcd's.
bool is_answer(const std::string& answer);
std::optional<EtcdValue> value_in(const std::string& range_answer);
std::int64_t count_in(const std::string& range_answer);
bool has_deleted(const std::string& delete_answer);
/// The value that stands in the way of a compare_request(): none if its value was put.
struct Compared {
  bool is_put = false;
  std::optional<EtcdValue> found;
};
Compared compared_in(const std::string& answer);
struct Added {
  bool is_put = false;
  std::optional<EtcdValue> found, mark;
};
Added added_in(const std::string& answer);
/// Whether the lease exists.
bool is_renewed(const std::string& answer);

}  // namespace accrue::distributed
