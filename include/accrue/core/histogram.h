#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue {

/// The distribution of a tensor's values. Values that are not finite are left out.
struct Histogram {
  double least = 0, most = 0;  ///< 0 if there is no value
  double sum = 0, sum_of_squares = 0;
  std::int64_t count = 0;
  /// counts[i] values lie in [limits[i - 1], limits[i]); the first bucket holds the values below
  /// limits[0]. The first and the last bucket are not empty, and adjacent empty buckets are
  /// merged.
  std::vector<double> limits, counts;
};

/// A histogram of a parameter ("h.0.attn.c_attn.weight").
struct NamedHistogram {
  std::string name;
  Histogram values;
};

/// The distributions of gradients and weights in one step.
struct StepHistograms {
  std::int64_t step = 0;
  std::vector<NamedHistogram> gradients;  ///< the mean gradient before clipping; may be empty
  std::vector<NamedHistogram> weights;    ///< after the step
};

}  // namespace accrue
