#include "accrue/core/words.h"

namespace accrue {

std::string listed(const std::vector<std::string>& words, const std::string& last_word) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " " + last_word + " " : ", ") + words[i];
  return text;
}

std::string counted(std::int64_t count, const std::string& one) {
  const bool hisses = one.ends_with("ch") || one.ends_with("sh") || one.ends_with('s');
  return std::to_string(count) + " " + one + (count == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace accrue
