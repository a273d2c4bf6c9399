#pragma once

#include <vector>

namespace accrue {

/// The middle value, or the mean of the two middle ones; `values` must not be empty.
double median_of(std::vector<double> values);

}  // namespace accrue
