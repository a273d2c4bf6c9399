#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/words.h"

namespace accrue::data {

/// The most keys or columns that a sentence names.
inline constexpr std::size_t most_unread_names = 16;

/// `"a", "b" and "c"`; for more names than that the first ones, "and others".
inline std::string unread_in_words(const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    words.push_back(words.size() < most_unread_names ? '"' + name + '"' : "others");
    if (words.size() > most_unread_names) break;
  }
  return listed(words, "and");
}

}  // namespace accrue::data
