#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "accrue/core/histogram.h"

namespace accrue {

/// Counts values in the buckets of TensorFlow's histograms (tsl/lib/histogram/histogram.cc), which
/// TensorBoard shows: on either side of 0 limits grow by a tenth from 1e-12 to 1e20. They are the
/// same for all tensors and steps, so counts of parts can be added.
class HistogramCounter {
 public:
  HistogramCounter();

  /// Adds values; those that are not finite are left out.
  void add(std::span<const double> values);
  /// Adds the counts of another counter.
  void add(const HistogramCounter& other);
  Histogram histogram() const;

 private:
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0, sum_of_squares_ = 0;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> counts_;  ///< by bucket
};

}  // namespace accrue
