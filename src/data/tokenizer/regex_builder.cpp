#include "data/tokenizer/regex_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/tokenizer/case_variants.h"
#include "data/tokenizer/character_properties.h"

namespace accrue::data {
namespace {

constexpr std::size_t most_sets = 4096, most_ranges = 200'000;

/// \w in a class, and outside, where Oniguruma's table of Latin-1 also has numbers that are not
/// decimal.
const CodePoints& word_in_class() {
  static const CodePoints word = characters_with("word").value_or(CodePoints());
  return word;
}
const CodePoints& word_outside_class() {
  static const CodePoints word =
      word_in_class() | CodePoints({{0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}});
  return word;
}

/// The combination of a repeat of a repeat, as in Oniguruma; none if they stay nested. PCRE2 would
/// match (?:a+)*b in a time that is exponential in the text.
struct JoinedRepeat {
  std::string_view words;
  bool is_optional = false;  ///< all of it is repeated by ??
};

std::optional<JoinedRepeat> joined_repeat(std::string_view inner, std::string_view outer) {
  constexpr std::array<std::string_view, 6> kinds{"?", "*", "+", "??", "*?", "+?"};
  constexpr std::string_view apart, plus_optional = "+)";
  constexpr std::array<std::array<std::string_view, 6>, 6> joined{
      {{"?", "*", "*", "??", "*?", apart},
       {"*", "*", "*", plus_optional, plus_optional, "*"},
       {"*", "*", "+", apart, plus_optional, "+"},
       {"??", "*?", "*?", "??", "*?", "*?"},
       {"*?", "*?", "*?", "*?", "*?", "*?"},
       {apart, "*", "+", "*?", "*?", "+?"}}};
  const auto row = std::find(kinds.begin(), kinds.end(), inner),
             column = std::find(kinds.begin(), kinds.end(), outer);
  if (row == kinds.end() || column == kinds.end()) return std::nullopt;
  const std::string_view found = joined[static_cast<std::size_t>(row - kinds.begin())]
                                       [static_cast<std::size_t>(column - kinds.begin())];
  if (found == apart) return std::nullopt;
  if (found == plus_optional) return JoinedRepeat{"+", true};
  return JoinedRepeat{found};
}

}  // namespace

void RegexBuilder::letter(char32_t letter, bool ignores_case) {
  if (letters_ignore_case_ != ignores_case) end_letters();
  letters_ignore_case_ = ignores_case;
  letters_ += letter;
}

void RegexBuilder::one_of(const CodePoints& set) {
  begin_atom(true);
  if (set == word_in_class())
    put(word_outside_class());
  else if (set == ~word_in_class())
    put(~word_outside_class());
  else
    put(set);
}

/// Multi-letter expansions of a character in the class may replace it.
void RegexBuilder::one_of_class(const RegexClass& read, bool ignores_case) {
  begin_atom(true);
  if (!ignores_case) {
    put(read.all());
    return;
  }
  const CodePoints characters = with_case_variants(read.characters);
  if (read.is_negated) {
    put(~characters);
    return;
  }
  const std::size_t begin = parts_.pieces.size();
  put(characters);
  for (const CaseExpansion& expansion : case_expansions()) {
    if ((expansion.characters & read.characters).is_empty()) continue;
    put("|");
    put_each(expansion.letters);
  }
  if (parts_.pieces.size() == begin + 1) return;
  insert_at_atom("(?:");
  put(")");
}

void RegexBuilder::end_of_line() {
  begin_atom(true);
  put("(?>");
  put(CodePoints::one('\r'));
  put(CodePoints::one('\n'));
  put("|");
  put(CodePoints({{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}));
  put(")");
}

void RegexBuilder::reference(std::size_t group) {
  begin_atom(false);
  parts_.has_references = true;
  parts_.pieces.push_back({RegexParts::Piece::Kind::reference, {}, group});
}

void RegexBuilder::place(std::string_view words) {
  end_letters();
  end_atom();
  put(words);
}

void RegexBuilder::place(std::string_view before, const CodePoints& set, std::string_view behind) {
  place(before);
  put(set);
  put(behind);
}

void RegexBuilder::word_boundary(bool is_one) {
  const CodePoints& word = word_outside_class();
  place("(?:(?<=", word, is_one ? ")(?!" : ")(?=");
  put(word);
  put(")|(?<!");
  put(word);
  put(is_one ? ")(?=" : ")(?!");
  put(word);
  put("))");
}

void RegexBuilder::open(OpenGroup::Kind kind, std::string_view words) {
  end_letters();
  end_atom();
  open_.push_back({.kind = kind, .begin = parts_.pieces.size()});
  put(words);
}

void RegexBuilder::open_capturing(bool has_name) {
  using Kind = RegexParts::Piece::Kind;
  open(OpenGroup::Kind::capturing, "");
  parts_.has_names |= has_name;
  parts_.pieces.back().kind = has_name ? Kind::named_group : Kind::group;
}

void RegexBuilder::end_alternative() {
  end_letters();
  OpenGroup& group = here();
  group.others_take_one &= group.takes_one || group.atom_takes_one;
}

void RegexBuilder::next_alternative() {
  end_alternative();
  put("|");
  OpenGroup& group = here();
  ++group.alternatives;
  group.atom.reset();
  group.is_repeated = group.atom_takes_one = group.takes_one = false;
}

/// A plain group that holds nothing but a repeat is that repeat.
void RegexBuilder::close() {
  end_alternative();
  put(")");
  const OpenGroup closed = here();
  open_.pop_back();
  if (closed.kind == OpenGroup::Kind::look_ahead || closed.kind == OpenGroup::Kind::look_behind)
    return;
  OpenGroup& group = here();
  group.atom = closed.begin;
  group.atom_takes_one = closed.others_take_one;
  group.is_repeated = closed.kind == OpenGroup::Kind::plain && closed.alternatives == 1 &&
                      closed.is_repeated && closed.atom == closed.begin + 1;
  if (!group.is_repeated) return;
  parts_.pieces.erase(parts_.pieces.begin() + static_cast<std::ptrdiff_t>(closed.begin));
  parts_.pieces.pop_back();
}

void RegexBuilder::repeat(std::string words, std::size_t least) {
  if (!letters_.empty()) {  // the last of them is repeated
    const std::u32string last(1, letters_.back());
    letters_.pop_back();
    begin_atom(true);
    put_letters(last);
  }
  OpenGroup& group = here();
  if (!group.atom) reader_.reject("nothing that could be repeated");
  // Oniguruma ends such a repeat with the first empty match, however few there were.
  if (least > 1 && !group.atom_takes_one)
    reader_.refuse("two or more of a part that may match nothing");
  if (least == 0) group.atom_takes_one = false;
  if (group.is_repeated) {
    std::string& last = parts_.pieces.back().text;
    const auto joined = joined_repeat(last, words);
    if (joined) last = joined->words;
    if (joined && !joined->is_optional) return;
    insert_at_atom("(?:");
    put(")");
    if (joined) words = "??";
  }
  put(words);
  group.is_repeated = true;
}

RegexParts RegexBuilder::finish() {
  end_letters();
  return std::move(parts_);
}

void RegexBuilder::put(std::string_view words) {
  parts_.pieces.push_back({RegexParts::Piece::Kind::text, std::string(words), 0});
}

void RegexBuilder::put(const CodePoints& set) {
  const auto found = std::find(parts_.sets.begin(), parts_.sets.end(), set);
  const auto number = static_cast<std::size_t>(found - parts_.sets.begin());
  parts_.pieces.push_back({RegexParts::Piece::Kind::characters, {}, number});
  if (found != parts_.sets.end()) return;
  ranges_ += set.ranges().size();
  if (parts_.sets.size() == most_sets || ranges_ > most_ranges)
    reader_.refuse("so many different characters and classes");
  parts_.sets.push_back(set);
}

void RegexBuilder::put_each(const std::u32string& letters) {
  for (const char32_t letter : letters) put(with_case_variants(CodePoints::one(letter)));
}

void RegexBuilder::put_letters(const std::u32string& letters) {
  for (std::u32string_view rest = letters; !rest.empty();) {
    if (letters_ignore_case_) {
      rest.remove_prefix(put_folded(rest));
    } else {
      put(CodePoints::one(rest.front()));
      rest.remove_prefix(1);
    }
  }
}

/// Puts the first letters so that their case does not matter; returns how many. Letters that a
/// single character can replace are put together, if there is no lookbehind.
std::size_t RegexBuilder::put_folded(std::u32string_view letters) {
  const CodePoints first = CodePoints::one(letters.front());
  if (is_behind()) {
    put(with_case_variants(first));
    return 1;
  }
  std::u32string together;
  for (const char32_t letter : letters.substr(0, 3)) together += folded(letter);
  for (; together.size() > 1; together.pop_back())
    for (const CaseExpansion& expansion : case_expansions())
      if (expansion.letters == together) {
        put_spelled(expansion.characters, expansion.letters);
        return together.size();
      }
  for (const CaseExpansion& expansion : case_expansions())
    if (expansion.characters.has(letters.front())) {
      put_spelled(expansion.characters, expansion.letters);
      return 1;
    }
  put(with_case_variants(first));
  return 1;
}

void RegexBuilder::put_spelled(const CodePoints& characters, const std::u32string& letters) {
  put("(?:");
  put(characters);
  put("|");
  put_each(letters);
  put(")");
}

void RegexBuilder::end_letters() {
  if (letters_.empty()) return;
  end_atom();
  put_letters(letters_);
  letters_.clear();
  here().takes_one = true;
}

void RegexBuilder::end_atom() {
  OpenGroup& group = here();
  group.takes_one |= group.atom_takes_one;
  group.atom.reset();
  group.is_repeated = group.atom_takes_one = false;
}

void RegexBuilder::begin_atom(bool takes_one) {
  end_letters();
  end_atom();
  here().atom = parts_.pieces.size();
  here().atom_takes_one = takes_one;
}

void RegexBuilder::insert_at_atom(std::string_view words) {
  parts_.pieces.insert(parts_.pieces.begin() + static_cast<std::ptrdiff_t>(here().atom.value_or(0)),
                       {RegexParts::Piece::Kind::text, std::string(words), 0});
}

bool RegexBuilder::is_behind() const {
  return std::any_of(open_.begin(), open_.end(), [](const OpenGroup& group) {
    return group.kind == OpenGroup::Kind::look_behind;
  });
}

}  // namespace accrue::data
