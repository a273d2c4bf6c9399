#pragma once

#include <string>

namespace accrue::cli {

/// A text between single quotes, as sh, bash and zsh read it back.
inline std::string in_single_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// A word as a shell reads it back: with quotes if it needs them.
inline std::string shell_word(const std::string& word) {
  const bool is_plain = word.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "_-+=.,:/@%") == std::string::npos;
  return is_plain && !word.empty() ? word : in_single_quotes(word);
}

}  // namespace accrue::cli
