#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue::observe {

/// Steps, 0 or more each, as ranges of consecutive ones, in order: one more than there are
/// gaps.
class StepRanges {
 public:
  struct Range {
    std::int64_t first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };

  StepRanges() = default;
  explicit StepRanges(const std::vector<Range>& ranges);

  void add(std::int64_t step) { add(Range{step, step}); }
  bool is_empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  /// Those of these steps that are not among `others`.
  StepRanges without(const StepRanges& others) const;
  /// "step 3", "steps 3 to 9 and 12": for people, with only the first few.
  std::string in_words() const;
  bool operator==(const StepRanges&) const = default;

 private:
  void add(Range added);

  std::vector<Range> ranges_;
};

}  // namespace accrue::observe
