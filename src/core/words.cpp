#include "core/words.h"

#include <utility>

namespace accrue {

std::string listed(const std::vector<std::string>& words, const std::string& last_word) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " " + last_word + " " : ", ") + words[i];
  return text;
}

std::string first_few(std::vector<std::string> names, std::size_t most) {
  if (names.size() > most) {
    std::string more = std::to_string(names.size() - most) + " more";
    names.resize(most);
    names.push_back(std::move(more));
  }
  return listed(names, "and");
}

std::string counted(std::int64_t count, const std::string& one) {
  const bool hisses = one.ends_with("ch") || one.ends_with("sh") || one.ends_with('s');
  return std::to_string(count) + " " + one + (count == 1 ? "" : hisses ? "es" : "s");
}

std::string in_quotes(std::string_view word) { return "\"" + std::string(word) + "\""; }

std::string digit_groups(std::int64_t integer, char separator) {
  std::string text = std::to_string(integer);
  const std::size_t digits = text.size() - (integer < 0 ? 1 : 0);
  constexpr std::size_t group = 3, shortest = 5;
  if (digits < shortest) return text;
  for (std::size_t behind = group; behind < digits; behind += group)
    text.insert(text.size() - behind - (behind / group - 1), 1, separator);
  return text;
}

}  // namespace accrue
