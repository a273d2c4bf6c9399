#pragma once

#include <string>

namespace accrue {

/// Returns the text with A to Z replaced by a to z; other bytes do not change.
inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace accrue
