#include "core/histogram_counter.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace accrue {
namespace {

/// The limits above 0, and for each cell of magnitudes the number of limits below it: a cell is a
/// 32nd of an octave and holds at most one limit, since limits are a tenth apart.
class Magnitudes {
 public:
  Magnitudes() {
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) limits_.push_back(limit);
    first_cell_ = raw_cell(limits_.front());
    for (std::uint64_t cell = first_cell_; cell <= raw_cell(limits_.back()); ++cell)
      below_.push_back(
          std::ranges::lower_bound(limits_, std::bit_cast<double>(cell << kCellShift)) -
          limits_.begin());
  }

  const std::vector<double>& limits() const { return limits_; }
  std::int64_t size() const { return static_cast<std::int64_t>(limits_.size()); }

  /// The number of limits that are at most `magnitude`.
  std::int64_t up_to(double magnitude) const {
    std::int64_t count = below_cell_of(magnitude);
    while (count < size() && limits_[static_cast<std::size_t>(count)] <= magnitude) ++count;
    return count;
  }
  /// The number of limits that are less than `magnitude`.
  std::int64_t below(double magnitude) const {
    std::int64_t count = below_cell_of(magnitude);
    while (count < size() && limits_[static_cast<std::size_t>(count)] < magnitude) ++count;
    return count;
  }

 private:
  static constexpr int kCellShift = 52 - 5;
  static std::uint64_t raw_cell(double magnitude) {
    return std::bit_cast<std::uint64_t>(magnitude) >> kCellShift;
  }
  std::int64_t below_cell_of(double magnitude) const {
    const std::uint64_t cell = std::max(raw_cell(magnitude), first_cell_) - first_cell_;
    return below_[std::min<std::size_t>(cell, below_.size() - 1)];
  }

  std::vector<double> limits_;
  std::vector<std::int64_t> below_;
  std::uint64_t first_cell_ = 0;
};

const Magnitudes& magnitudes() {
  static const Magnitudes table;
  return table;
}

/// All limits, ascending: the lowest double, those below 0, 0, those above it, the largest double.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> all = [] {
    const std::vector<double>& above = magnitudes().limits();
    std::vector<double> limits{std::numeric_limits<double>::lowest()};
    for (auto limit = above.rbegin(); limit != above.rend(); ++limit) limits.push_back(-*limit);
    limits.push_back(0);
    limits.insert(limits.end(), above.begin(), above.end());
    limits.push_back(std::numeric_limits<double>::max());
    return limits;
  }();
  return all;
}

/// The number of limits that are at most `value`, which is the number of its bucket. The largest
/// double is in the last one.
std::size_t bucket_of(double value) {
  const Magnitudes& table = magnitudes();
  const std::int64_t bucket =
      value < 0 ? 1 + table.size() - table.below(-value)
                : 2 + table.size() + table.up_to(std::abs(value));  // -0 has a sign
  return static_cast<std::size_t>(bucket);
}

}  // namespace

HistogramCounter::HistogramCounter() : counts_(bucket_limits().size()) {}

void HistogramCounter::add(std::span<const double> values) {
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least_ = std::min(least_, value);
    most_ = std::max(most_, value);
    sum_ += value;
    sum_of_squares_ += value * value;
    ++count_;
    ++counts_[bucket_of(value)];
  }
}

void HistogramCounter::add(const HistogramCounter& other) {
  least_ = std::min(least_, other.least_);
  most_ = std::max(most_, other.most_);
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
  count_ += other.count_;
  std::ranges::transform(counts_, other.counts_, counts_.begin(), std::plus<>());
}

Histogram HistogramCounter::histogram() const {
  if (count_ == 0) return {};
  Histogram result{.least = least_,
                   .most = most_,
                   .sum = sum_,
                   .sum_of_squares = sum_of_squares_,
                   .count = count_};
  const std::size_t end = bucket_of(most_) + 1;
  for (std::size_t bucket = bucket_of(least_); bucket < end; ++bucket) {
    const auto count = static_cast<double>(counts_[bucket]);
    const bool joins_an_empty_one = count == 0 && result.counts.back() == 0;
    if (joins_an_empty_one) {
      result.limits.back() = bucket_limits()[bucket];
    } else {
      result.limits.push_back(bucket_limits()[bucket]);
      result.counts.push_back(count);
    }
  }
  return result;
}

}  // namespace accrue
