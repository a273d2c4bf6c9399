#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "accrue/core/error.h"

namespace accrue {

/// A value of an enum and the word that stands for it in configs, files and messages.
template <typename Enum>
struct EnumWord {
  Enum value;
  std::string_view word;
};

/// The words of an enum, in the order in which messages list them. This one table is used for both
/// printing and parsing. Made by enum_words(), next to the enum.
template <typename Enum, std::size_t N>
struct EnumWords {
  std::array<EnumWord<Enum>, N> table;

  /// The word of `value`. Every value must have one.
  constexpr std::string_view of(Enum value) const {
    for (const auto& [known, word] : table)
      if (known == value) return word;
    return {};
  }

  /// The value of the word `text`, or nothing if no value has this word.
  constexpr std::optional<Enum> find(std::string_view text) const {
    for (const auto& [value, word] : table)
      if (word == text) return value;
    return std::nullopt;
  }

  constexpr std::array<std::string_view, N> words() const {
    std::array<std::string_view, N> all;
    for (std::size_t i = 0; i < N; ++i) all[i] = table[i].word;
    return all;
  }

  /// The value of the word `text`. Throws a usage Error that lists all words if there is none.
  Enum parse(std::string_view text, std::string_view operation, std::string_view suggestion) const {
    if (const std::optional<Enum> value = find(text)) return *value;
    std::string listed(table.front().word);
    for (std::size_t i = 1; i < N; ++i)
      listed.append(i + 1 == N ? " or " : ", ").append(table[i].word);
    throw usage_error(operation, listed, text, suggestion);
  }
};

template <typename Enum, std::size_t N>
constexpr EnumWords<Enum, N> enum_words(const EnumWord<Enum> (&table)[N]) {
  return {std::to_array(table)};
}

}  // namespace accrue
