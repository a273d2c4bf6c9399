#pragma once

#include <vector>

namespace accrue {

/// The middle value, or the mean of the two in the middle; `values` is not empty.
double median_of(std::vector<double> values);

}  // namespace accrue
