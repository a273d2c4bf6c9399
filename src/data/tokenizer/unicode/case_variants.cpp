#include "data/tokenizer/unicode/case_variants.h"

#include <map>
#include <span>
#include <utility>

#include "data/tokenizer/unicode/unicode_data.h"

namespace accrue::data {
namespace {

/// Lists of which each ends with a zero.
std::vector<std::u32string> lists_in(std::span<const char32_t> table) {
  std::vector<std::u32string> lists(1);
  for (const char32_t c : table) {
    if (c != 0)
      lists.back() += c;
    else
      lists.emplace_back();
  }
  lists.pop_back();
  return lists;
}

/// Each begins with the character to which the others are folded.
const std::vector<std::u32string>& variants() {
  static const std::vector<std::u32string> lists = lists_in(unicode_data::case_variants);
  return lists;
}

std::map<char32_t, char32_t> make_foldings() {
  std::map<char32_t, char32_t> foldings;
  for (const std::u32string& list : variants())
    for (const char32_t c : list) foldings[c] = list.front();
  return foldings;
}

CodePoints set_of(const std::u32string& characters) {
  std::vector<CodePoints::Range> ranges;
  for (const char32_t c : characters) ranges.push_back({c, c});
  return CodePoints(std::move(ranges));
}

std::vector<CaseExpansion> make_expansions() {
  const std::vector<std::u32string> lists = lists_in(unicode_data::case_expansions);
  std::vector<CaseExpansion> expansions;
  for (std::size_t i = 0; i + 1 < lists.size(); i += 2)
    expansions.push_back({lists[i], set_of(lists[i + 1])});
  return expansions;
}

}  // namespace

CodePoints with_case_variants(const CodePoints& characters) {
  CodePoints all = characters;
  std::u32string added;
  for (const std::u32string& list : variants())
    for (const char32_t c : list)
      if (characters.has(c)) {
        added += list;
        break;
      }
  for (const CaseExpansion& expansion : case_expansions())
    if (!(expansion.characters & characters).is_empty()) all = all | expansion.characters;
  return added.empty() ? all : all | set_of(added);
}

char32_t folded(char32_t letter) {
  static const std::map<char32_t, char32_t> foldings = make_foldings();
  const auto found = foldings.find(letter);
  return found == foldings.end() ? letter : found->second;
}

const std::vector<CaseExpansion>& case_expansions() {
  static const std::vector<CaseExpansion> expansions = make_expansions();
  return expansions;
}

}  // namespace accrue::data
