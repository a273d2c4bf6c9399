#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accrue::distributed {

/// Signs the texts that the ranks of one run write under the keys of their store, and verifies that
/// a text read there was written by one of them: HMAC-SHA-512-256 (libsodium) over run, key and
/// text, by the run token. A text from another key, or of another run, is not valid.
///
/// With an empty token anyone can sign: that separates runs, but does not protect them.
class TextSeal {
 public:
  TextSeal(std::string token, std::string run) : token_(std::move(token)), run_(std::move(run)) {}

  /// The bytes that a seal adds to a text.
  static constexpr std::size_t kBytes = 32;

  /// The seal, followed by the text.
  std::string sealed(std::string_view key, std::string_view text) const;
  /// The text of a result of sealed() for `key`; none for any other bytes. Takes equally long
  /// wherever a seal is wrong.
  std::optional<std::string> opened(std::string_view key, std::string_view bytes) const;

 private:
  std::string seal_of(std::string_view key, std::string_view text) const;

  std::string token_, run_;
};

/// A name for a run that no run had before: 32 random hexadecimal digits.
std::string random_name();

}  // namespace accrue::distributed
