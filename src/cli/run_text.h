#pragma once

#include <string>

namespace accrue::cli {

/// A loss as people compare it: five significant digits.
std::string loss_text(double loss);

/// What is done in a second, without its unit: 12'345.6 -> "12.3 k", 3.456 -> "3.46".
std::string rate_text(double per_second);

}  // namespace accrue::cli
