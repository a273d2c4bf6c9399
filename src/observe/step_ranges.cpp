#include "observe/step_ranges.h"

#include <algorithm>

#include "core/words.h"

namespace accrue::observe {

StepRanges::StepRanges(const std::vector<Range>& ranges) {
  for (const Range& range : ranges) add(range);
}

void StepRanges::add(Range added) {
  // The first range that it touches: most steps are added at the end.
  auto at = ranges_.end();
  while (at != ranges_.begin() && std::prev(at)->last >= added.first - 1) --at;
  auto behind = at;
  for (; behind != ranges_.end() && behind->first - 1 <= added.last; ++behind) {
    added.first = std::min(added.first, behind->first);
    added.last = std::max(added.last, behind->last);
  }
  ranges_.insert(ranges_.erase(at, behind), added);
}

StepRanges StepRanges::without(const StepRanges& others) const {
  StepRanges left;
  for (const Range& range : ranges_) {
    std::int64_t next = range.first;
    bool is_done = false;
    for (const Range& other : others.ranges_) {
      if (other.last < next || other.first > range.last) continue;
      if (other.first > next) left.add({next, other.first - 1});
      is_done = other.last >= range.last;
      if (is_done) break;
      next = other.last + 1;
    }
    if (!is_done) left.add({next, range.last});
  }
  return left;
}

std::string StepRanges::in_words() const {
  constexpr std::size_t most = 8;
  std::vector<std::string> words;
  for (const Range& range : ranges_) {
    if (words.size() == most) {
      words.push_back(std::to_string(ranges_.size() - most) + " more ranges");
      break;
    }
    words.push_back(range.first == range.last
                        ? std::to_string(range.first)
                        : std::to_string(range.first) + " to " + std::to_string(range.last));
  }
  const bool is_one = ranges_.size() == 1 && ranges_.front().first == ranges_.front().last;
  return (is_one ? "step " : "steps ") + listed(words, "and");
}

}  // namespace accrue::observe
