#include "data/tokenizer/regex/regex_words.h"

#include <charconv>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {
namespace {

std::string number_of_character(std::uint32_t number) {
  char digits[8];
  const auto written = std::to_chars(std::begin(digits), std::end(digits), number, 16);
  return "\\x{" + std::string(std::begin(digits), written.ptr) + "}";
}

/// A class of ranges.
std::string class_of_ranges(const std::vector<CodePoints::Range>& ranges) {
  if (ranges.empty()) return "(?:(?!))";  // no character is one of them
  if (ranges.size() == 1 && ranges[0].first == ranges[0].last)
    return number_of_character(ranges[0].first);
  std::string words = "[";
  for (const CodePoints::Range& range : ranges) {
    words += number_of_character(range.first);
    if (range.first != range.last) words += "-" + number_of_character(range.last);
  }
  return words + "]";
}

std::vector<CodePoints::Range> ranges_of(const std::vector<Alphabet::Kind>& kinds) {
  std::vector<CodePoints::Range> ranges;
  for (const Alphabet::Kind kind : kinds) ranges.push_back({kind, kind});
  return CodePoints(std::move(ranges)).ranges();
}

}  // namespace

std::string words_of_pcre2(const RegexParts& parts, const Alphabet* alphabet) {
  const CodePoints surrogates({{0xd800, 0xdfff}});  // no text has one, and PCRE2 refuses them
  std::string words;
  for (const RegexParts::Piece& piece : parts.pieces) {
    using enum RegexParts::Piece::Kind;
    switch (piece.kind) {
      case text:
        words += piece.text;
        break;
      case characters:
        words +=
            class_of_ranges(alphabet != nullptr ? ranges_of(alphabet->kinds_in(piece.number))
                                                : (parts.sets[piece.number] - surrogates).ranges());
        break;
      case group:
        words += parts.has_references && !parts.has_names ? "(" : "(?:";
        break;
      case named_group:
        words += parts.has_references ? "(" : "(?:";
        break;
      case reference:
        words += "\\g{" + std::to_string(piece.number) + "}";
        break;
    }
  }
  return words;
}

}  // namespace accrue::data
