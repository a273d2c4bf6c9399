#pragma once

#include <string>

namespace accrue::cli {

/// A text in single quotes, for sh, bash and zsh.
inline std::string in_single_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// A word for a shell: quoted if necessary.
inline std::string shell_word(const std::string& word) {
  const bool is_plain = word.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "_-+=.,:/@%") == std::string::npos;
  return is_plain && !word.empty() ? word : in_single_quotes(word);
}

}  // namespace accrue::cli
