#pragma once

#include <vector>

namespace accrue::data {

/// A set of code points, as ranges.
class CodePoints {
 public:
  /// From `first` to `last`, inclusive.
  struct Range {
    char32_t first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };
  static constexpr char32_t largest = 0x10ffff;

  CodePoints() = default;
  /// In any order; they may overlap.
  explicit CodePoints(std::vector<Range> ranges);
  static CodePoints one(char32_t c) { return CodePoints({{c, c}}); }
  static CodePoints all() { return CodePoints({{0, largest}}); }

  /// In order, without adjacent ranges.
  const std::vector<Range>& ranges() const { return ranges_; }
  bool is_empty() const { return ranges_.empty(); }
  bool has(char32_t c) const;

  CodePoints operator|(const CodePoints& other) const;
  CodePoints operator&(const CodePoints& other) const;
  CodePoints operator-(const CodePoints& other) const { return *this & ~other; }
  CodePoints operator~() const;
  bool operator==(const CodePoints&) const = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace accrue::data
