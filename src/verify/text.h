#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "core/words.h"

namespace accrue::proof {

/// "1.2e-06", "0.34"
inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// The number of decimal digits that two values with this relative difference share.
inline std::string digits(double relative) {
  if (relative <= 0) return "to the last bit";
  char text[32];
  std::snprintf(text, sizeof text, "to %.1f digits", std::max(0.0, -std::log10(relative)));
  return text;
}

/// "1, 1, 0"; of many only the first few.
inline std::string numbers(const std::vector<double>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size() && i < 8; ++i)
    text += (i == 0 ? "" : ", ") + number(values[i]);
  return values.size() > 8 ? text + ", ..." : text;
}

/// The first few names, and the number of the others.
inline std::string first_names(const std::vector<std::string>& names) {
  return first_few(names, 4);
}

}  // namespace accrue::proof
