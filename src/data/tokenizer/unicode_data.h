#pragma once

#include <cstdint>
#include <span>
#include <string_view>

/// Unicode's data, which scripts/unicode_tables.py writes. What they mean is asked of
/// character_properties.h and case_variants.h.
namespace accrue::data::unicode_data {

extern const std::string_view version;

/// From a code point on, up to the next run, a property has this value.
struct Run {
  char32_t first = 0;
  std::uint16_t value = 0;
};
extern const std::span<const Run> categories, scripts, blocks;

/// Of each property that a code point has or has not, the code points at which that changes.
extern const std::span<const std::span<const char32_t>> binaries;

enum class Table : std::uint8_t { category, script, block, binary };
/// In lower case and without separators, in order. The value is one of the table's: a script, a
/// block, a binary property; of categories the bits of all that are meant.
struct Name {
  std::string_view name;
  Table table = Table::category;
  std::uint32_t value = 0;
};
extern const std::span<const Name> names;

/// Characters that differ by case alone; a zero ends each list.
extern const std::span<const char32_t> case_variants;

/// Letters, a zero, and the characters that each stand for them (ss and ß); a zero ends each list.
extern const std::span<const char32_t> case_expansions;

}  // namespace accrue::data::unicode_data
