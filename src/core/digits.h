#pragma once

#include <string>

namespace accrue {

/// The shortest text that reads back to the same number: for messages.
std::string in_digits(double number);

/// The number in at most four digits: for messages.
std::string in_four_digits(double number);

}  // namespace accrue
