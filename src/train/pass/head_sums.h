#pragma once

#include <map>
#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace accrue::train {

/// The results of a model's losses, in their order.
struct HeadSums {
  std::vector<double>
      sums;  ///< without coefficients; 0 of a loss that does not count and was not run
  std::vector<double> weights;
  /// Further results of the losses (Loss::measures), one loss after the other.
  std::vector<double> measures = {};

  /// Adds those of other micro-batches; an empty one counts as 0.
  HeadSums& operator+=(const HeadSums& other);
};

/// Each loss's own mean by its name, if there are several, and the means of their further measures;
/// without those that have no weight or do not count.
std::map<std::string, double> means_of(const std::vector<models::LossHead>& heads,
                                       const HeadSums& sums);

}  // namespace accrue::train
