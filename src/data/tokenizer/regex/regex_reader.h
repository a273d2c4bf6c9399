#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {

/// Reads a pattern in Oniguruma's syntax from the left, character by character, and escapes in
/// classes and outside them. Errors are usage Errors of the operation `what`.
class RegexReader {
 public:
  /// Refuses patterns that are not UTF-8, or have more than 64 KiB.
  RegexReader(std::string_view pattern, std::string what);

  bool is_at_end() const { return at_ == pattern_.size(); }
  /// The rest of the pattern.
  std::string_view rest() const { return pattern_.substr(at_); }
  /// The next character, which must exist.
  char32_t next();
  /// Reads `text` if it is next.
  bool skip(std::string_view text);
  void advance(std::size_t bytes) { at_ += bytes; }
  /// Digits in ASCII of a base up to 16, at most `most`.
  std::string digits(std::size_t most, unsigned base);

  /// After a backslash: the characters of \w, \d, \s, \h, \p{...} and their opposites.
  std::optional<CodePoints> escaped_set();
  /// After a backslash, if nothing else was read: the intended character.
  char32_t escaped_character();

  /// Reports that this version does not match such patterns.
  [[noreturn]] void refuse(const std::string& feature) const;
  /// Reports that Oniguruma does not accept it either.
  [[noreturn]] void reject(const std::string& fault) const;

 private:
  CodePoints property();
  char32_t code_point_of(const std::string& digits, unsigned base) const;
  char32_t of_bytes(unsigned first);

  std::string_view pattern_;
  std::string what_;
  std::size_t at_ = 0;
};

}  // namespace accrue::data
