#pragma once

#include <cstdint>
#include <span>
#include <string_view>

/// Unicode's data, which scripts/unicode_tables.py writes. character_properties.h and
/// case_variants.h define their meaning.
namespace accrue::data::unicode_data {

extern const std::string_view version;

/// From a code point on, up to the next run, a property has this value.
struct Run {
  char32_t first = 0;
  std::uint16_t value = 0;
};
extern const std::span<const Run> categories, scripts, blocks;

/// For each binary property, the code points at which its value changes.
extern const std::span<const std::span<const char32_t>> binaries;

enum class Table : std::uint8_t { category, script, block, binary };
/// In lower case and without separators, in order. The value is one of the table's: a script, a
/// block, a binary property; for categories the bits of all that the name covers.
struct Name {
  std::string_view name;
  Table table = Table::category;
  std::uint32_t value = 0;
};
extern const std::span<const Name> names;

/// Characters that differ only by case; a zero ends each list.
extern const std::span<const char32_t> case_variants;

/// Letters, a zero, and the characters that each stand for them (ss and ß); a zero ends each list.
extern const std::span<const char32_t> case_expansions;

}  // namespace accrue::data::unicode_data
