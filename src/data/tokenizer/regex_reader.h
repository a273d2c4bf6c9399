#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/code_points.h"

namespace accrue::data {

/// Reads a pattern in Oniguruma's syntax from the left, character by character, and what is behind
/// a backslash in classes and outside them. Errors are usage Errors, their operation being `what`.
class RegexReader {
 public:
  /// Refuses patterns that are no UTF-8, or of more than 64 KiB.
  RegexReader(std::string_view pattern, std::string what);

  bool is_at_end() const { return at_ == pattern_.size(); }
  /// What is still to be read.
  std::string_view rest() const { return pattern_.substr(at_); }
  /// The next character, which there must be.
  char32_t next();
  /// Reads `text` if it is next.
  bool skip(std::string_view text);
  void go_on_behind(std::size_t bytes) { at_ += bytes; }
  /// Digits in ASCII of a base up to 16, at most `most`.
  std::string digits(std::size_t most, unsigned base);

  /// Behind a backslash: the characters of \w, \d, \s, \h, \p{...} and their opposites.
  std::optional<CodePoints> escaped_set();
  /// Behind a backslash, if nothing else was read: the character that is meant.
  char32_t escaped_character();

  /// Says that this version does not match such patterns.
  [[noreturn]] void refuse(const std::string& feature) const;
  /// Says that Oniguruma takes none of these either.
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
