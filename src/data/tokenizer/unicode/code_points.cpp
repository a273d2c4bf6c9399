#include "data/tokenizer/unicode/code_points.h"

#include <algorithm>
#include <utility>

namespace accrue::data {

CodePoints::CodePoints(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  for (const Range& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1)
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    else
      ranges_.push_back(range);
  }
}

bool CodePoints::has(char32_t c) const {
  const auto next =
      std::upper_bound(ranges_.begin(), ranges_.end(), c,
                       [](char32_t wanted, const Range& range) { return wanted < range.first; });
  return next != ranges_.begin() && c <= std::prev(next)->last;
}

CodePoints CodePoints::operator|(const CodePoints& other) const {
  std::vector<Range> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePoints(std::move(both));
}

CodePoints CodePoints::operator&(const CodePoints& other) const {
  CodePoints common;
  auto left = ranges_.begin(), right = other.ranges_.begin();
  while (left != ranges_.end() && right != other.ranges_.end()) {
    const char32_t first = std::max(left->first, right->first),
                   last = std::min(left->last, right->last);
    if (first <= last) common.ranges_.push_back({first, last});
    ++(left->last < right->last ? left : right);
  }
  return common;
}

CodePoints CodePoints::operator~() const {
  CodePoints others;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (next < range.first) others.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= largest) others.ranges_.push_back({next, largest});
  return others;
}

}  // namespace accrue::data
