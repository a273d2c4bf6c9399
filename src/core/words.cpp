#include "accrue/core/words.h"

namespace accrue {

std::string listed(const std::vector<std::string>& words, const std::string& last_word) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " " + last_word + " " : ", ") + words[i];
  return text;
}

}  // namespace accrue
