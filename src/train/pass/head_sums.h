#pragma once

#include <map>
#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace accrue::train {

/// What each of a model's losses came to, in their order.
struct HeadSums {
  std::vector<double>
      sums;  ///< without coefficients; 0 of a loss that does not count and was not run
  std::vector<double> weights;
  /// What else the losses tell (Loss::measures), one loss after the other.
  std::vector<double> measures = {};

  /// Adds those of other micro-batches; an empty one is 0.
  HeadSums& operator+=(const HeadSums& other);
};

/// Each loss's own mean by its name, if there are several, and the means of what else they tell;
/// without those that have no weight or do not count.
std::map<std::string, double> means_of(const std::vector<models::LossHead>& heads,
                                       const HeadSums& sums);

}  // namespace accrue::train
