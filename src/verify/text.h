#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace accrue::proof {

/// "1.2e-06", "0.34"
inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// How many decimal digits two things that differ by `relative` have in common.
inline std::string digits(double relative) {
  if (relative <= 0) return "to the last bit";
  char text[32];
  std::snprintf(text, sizeof text, "to %.1f digits", std::max(0.0, -std::log10(relative)));
  return text;
}

}  // namespace accrue::proof
