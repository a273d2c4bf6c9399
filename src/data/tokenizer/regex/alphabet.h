#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {

/// Kinds of characters: characters that are in the same sets have one kind. So a pattern sees
/// one byte for each character of a text, and the library that matches these bytes does not
/// matter.
class Alphabet {
 public:
  static constexpr std::size_t most_kinds = 256;
  using Kind = std::uint8_t;

  /// None if the sets distinguish more than `most_kinds` kinds.
  static std::optional<Alphabet> of(const std::vector<CodePoints>& sets);

  /// The kinds of the characters in a set, in order.
  const std::vector<Kind>& kinds_in(std::size_t set) const { return kinds_in_[set]; }
  /// The kind of each character of a text, which is valid UTF-8.
  std::string kinds_of(std::string_view text) const;

 private:
  static constexpr std::size_t page_bits = 7, page_size = std::size_t{1} << page_bits;

  Alphabet() = default;
  Kind kind_of(char32_t c) const {
    return kinds_[pages_[c >> page_bits] * page_size + c % page_size];
  }
  struct Run;
  void lay_out(const std::vector<Run>& runs);

  std::vector<std::uint16_t> pages_;  ///< for each page of code points, its offset among the kinds
  std::vector<Kind> kinds_;
  std::vector<std::vector<Kind>> kinds_in_;
};

}  // namespace accrue::data
