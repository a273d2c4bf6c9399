#pragma once

#include <string>

namespace accrue {

/// The text with A to Z as a to z; other bytes stay as they are.
inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace accrue
