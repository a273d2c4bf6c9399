#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue {

/// How the values of a tensor are distributed; values that are not finite are left out.
struct Histogram {
  double least = 0, most = 0;  ///< 0 if there is no value
  double sum = 0, sum_of_squares = 0;
  std::int64_t count = 0;
  /// counts[i] values lie in [limits[i - 1], limits[i]); those of the first bucket only below
  /// limits[0]. Neither the first nor the last bucket is empty, and neighbours that are empty are
  /// one.
  std::vector<double> limits, counts;
};

/// A histogram of a parameter ("h.0.attn.c_attn.weight").
struct NamedHistogram {
  std::string name;
  Histogram values;
};

/// What a step was taken by, and what it came to.
struct StepHistograms {
  std::int64_t step = 0;
  std::vector<NamedHistogram> gradients;  ///< the mean gradient before clipping; may be empty
  std::vector<NamedHistogram> weights;    ///< after the step
};

}  // namespace accrue
