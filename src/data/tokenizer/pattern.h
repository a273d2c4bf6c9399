#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "data/tokenizer/json_part.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/text_growth.h"

namespace accrue::data {

/// What is looked for in a text: a text, or what a regular expression describes.
class Pattern {
 public:
  /// An empty text occurs nowhere.
  explicit Pattern(std::string text) : pattern_(std::move(text)) {}
  explicit Pattern(Regex regex) : pattern_(std::move(regex)) {}

  /// Replaces each occurrence by `content`. What is made is taken from `growth`.
  void replace(std::string& text, const std::string& content, TextGrowth& growth) const;
  /// Calls `found` with each occurrence, from the left, none within another. Of expressions that
  /// match nothing there are also occurrences of no size.
  void for_each(std::string_view text, const std::function<void(Extent)>& found) const;

 private:
  std::variant<std::string, Regex> pattern_;
};

/// The part's "pattern": {"String": ...} or {"Regex": ...}.
Pattern read_pattern(const JsonPart& part);

}  // namespace accrue::data
