#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "data/json/json_part.h"
#include "data/tokenizer/pipeline/text_growth.h"
#include "data/tokenizer/regex/regex.h"

namespace accrue::data {

/// A search in a text: for a text, or for a regular expression.
class Pattern {
 public:
  /// An empty text occurs nowhere.
  explicit Pattern(std::string text) : pattern_(std::move(text)) {}
  explicit Pattern(Regex regex) : pattern_(std::move(regex)) {}

  /// Replaces each occurrence by `content`. `growth` accounts for the bytes produced.
  void replace(std::string& text, const std::string& content, TextGrowth& growth) const;
  /// Calls `found` with each occurrence, from the left, without overlaps. Expressions that match
  /// the empty text have occurrences of size 0 as well.
  void for_each(std::string_view text, const std::function<void(Extent)>& found) const;

 private:
  std::variant<std::string, Regex> pattern_;
};

/// The part's "pattern": {"String": ...} or {"Regex": ...}.
Pattern read_pattern(const JsonPart& part);

}  // namespace accrue::data
