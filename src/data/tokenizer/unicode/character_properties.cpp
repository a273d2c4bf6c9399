#include "data/tokenizer/unicode/character_properties.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/lower_case.h"
#include "data/tokenizer/unicode/unicode_data.h"

namespace accrue::data {
namespace {

std::string loose_name(std::string_view name) {
  std::string loose = lower_case(std::string(name));
  std::erase_if(loose, [](char c) { return c == ' ' || c == '-' || c == '_'; });
  return loose;
}

template <class IsMeant>
CodePoints in_runs(std::span<const unicode_data::Run> runs, IsMeant&& is_meant) {
  std::vector<CodePoints::Range> ranges;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const char32_t last = i + 1 < runs.size() ? runs[i + 1].first - 1 : CodePoints::largest;
    if (is_meant(runs[i].value)) ranges.push_back({runs[i].first, last});
  }
  return CodePoints(std::move(ranges));
}

CodePoints between_changes(std::span<const char32_t> changes) {
  std::vector<CodePoints::Range> ranges;
  for (std::size_t i = 0; i + 1 < changes.size(); i += 2)
    ranges.push_back({changes[i], changes[i + 1] - 1});
  return CodePoints(std::move(ranges));
}

CodePoints characters_in_table(const unicode_data::Name& name) {
  const auto is_value = [&](std::uint16_t value) { return value == name.value; };
  switch (name.table) {
    case unicode_data::Table::category:
      return in_runs(unicode_data::categories,
                     [&](std::uint16_t value) { return (name.value >> value & 1U) != 0; });
    case unicode_data::Table::script:
      return in_runs(unicode_data::scripts, is_value);
    case unicode_data::Table::block:
      return in_runs(unicode_data::blocks, is_value);
    case unicode_data::Table::binary:
      return between_changes(unicode_data::binaries[name.value]);
  }
  return {};
}

/// A property in the tables.
std::optional<CodePoints> characters_in_tables(std::string_view loose) {
  const auto found = std::lower_bound(
      unicode_data::names.begin(), unicode_data::names.end(), loose,
      [](const unicode_data::Name& name, std::string_view wanted) { return name.name < wanted; });
  if (found == unicode_data::names.end() || found->name != loose) return std::nullopt;
  return characters_in_table(*found);
}

CodePoints table_of(std::string_view loose) {
  return characters_in_tables(loose).value_or(CodePoints());
}

/// Visible characters: neither white space nor controls, and assigned.
CodePoints graphic_characters() {
  return ~(table_of("whitespace") | table_of("cc") | table_of("cn") | table_of("cs"));
}

/// POSIX's classes, as in Technical Standard 18 of Unicode and Oniguruma.
std::optional<CodePoints> characters_of_posix(std::string_view loose) {
  if (loose == "alnum") return table_of("alphabetic") | table_of("nd");
  if (loose == "alpha") return table_of("alphabetic");
  if (loose == "any") return CodePoints::all();
  if (loose == "ascii") return CodePoints({{0, 0x7f}});
  if (loose == "assigned") return ~table_of("cn");
  if (loose == "blank") return table_of("zs") | CodePoints::one('\t');
  if (loose == "cntrl") return table_of("cc");
  if (loose == "digit") return table_of("nd");
  if (loose == "graph") return graphic_characters();
  if (loose == "lower") return table_of("lowercase");
  if (loose == "newline") return CodePoints::one('\n');
  if (loose == "print") return graphic_characters() | table_of("zs");
  if (loose == "posixpunct") return table_of("p") | table_of("s");
  if (loose == "space") return table_of("whitespace");
  if (loose == "upper") return table_of("uppercase");
  if (loose == "word")
    return table_of("alphabetic") | table_of("m") | table_of("nd") | table_of("pc");
  if (loose == "xdigit") return CodePoints({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  return std::nullopt;
}

}  // namespace

std::string_view unicode_version() { return unicode_data::version; }

std::optional<CodePoints> characters_with(std::string_view name) {
  const std::string loose = loose_name(name);
  if (auto posix = characters_of_posix(loose)) return posix;
  return characters_in_tables(loose);
}

const CodePoints& white_space_characters() {
  static const CodePoints characters = table_of("whitespace");
  return characters;
}

const CodePoints& word_characters() {
  static const CodePoints characters =
      characters_with("word").value_or(CodePoints()) | table_of("joincontrol");
  return characters;
}

}  // namespace accrue::data
