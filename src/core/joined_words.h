#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue {

/// {"a", "b"} and ", " -> "a, b".
inline std::string joined_words(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += separator;
    text += words[i];
  }
  return text;
}

}  // namespace accrue
