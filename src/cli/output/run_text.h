#pragma once

#include <string>

namespace accrue::cli {

/// A loss with the digits that people compare: five significant ones.
std::string loss_text(double loss);

/// A rate per second, without its unit: 12'345.6 -> "12.3 k", 3.456 -> "3.46".
std::string rate_text(double per_second);

}  // namespace accrue::cli
