#include "data/tokenizer/regex/regex_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/tokenizer/unicode/case_variants.h"
#include "data/tokenizer/unicode/character_properties.h"

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
  begin_atom(one_character);
  if (set == word_in_class())
    put(word_outside_class());
  else if (set == ~word_in_class())
    put(~word_outside_class());
  else
    put(set);
}

/// Multi-letter expansions of a character in the class may replace it.
void RegexBuilder::one_of_class(const RegexClass& read, bool ignores_case) {
  begin_atom(one_character);
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
  here().atom_facts.has_one_way = false;
  parts_.has_inner_alternatives = true;
  insert_at_atom("(?:");
  put(")");
}

void RegexBuilder::end_of_line() {
  begin_atom(one_character);
  parts_.has_kept_groups = true;
  put("(?>");
  put(CodePoints::one('\r'));
  put(CodePoints::one('\n'));
  put("|");
  put(CodePoints({{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}));
  put(")");
}

void RegexBuilder::reference(std::size_t group) {
  begin_atom(at_some_places);
  parts_.has_references = true;
  parts_.pieces.push_back({RegexParts::Piece::Kind::reference, {}, group});
}

void RegexBuilder::place(std::string_view words) {
  end_letters();
  end_atom();
  here().facts = here().facts.then(at_some_places);
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
  parts_.has_kept_groups |= kind == OpenGroup::Kind::kept;
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
  const MatchFacts all = group.facts.then(group.atom_facts);
  group.others = group.others ? group.others->or_else(all) : all;
}

void RegexBuilder::next_alternative() {
  end_alternative();
  put("|");
  parts_.has_inner_alternatives |= open_.size() > 1;
  OpenGroup& group = here();
  ++group.alternatives;
  group.atom.reset();
  group.is_repeated = false;
  group.atom_facts = group.facts = MatchFacts();
}

/// A plain group that holds nothing but a repeat is that repeat.
void RegexBuilder::close() {
  using Kind = OpenGroup::Kind;
  end_alternative();
  put(")");
  const OpenGroup closed = here();
  open_.pop_back();
  OpenGroup& group = here();
  if (closed.kind == Kind::look_ahead || closed.kind == Kind::look_behind) {
    MatchFacts looked = at_some_places;
    looked.captures = closed.others && closed.others->captures;
    group.facts = group.facts.then(looked);
    return;
  }
  const MatchFacts facts = closed.others.value_or(MatchFacts());
  group.atom = closed.begin;
  group.atom_facts = closed.kind == Kind::kept ? facts.kept() : facts;
  group.atom_facts.captures |= closed.kind == Kind::capturing;
  group.is_repeated = closed.kind == Kind::plain && closed.alternatives == 1 &&
                      closed.is_repeated && closed.atom == closed.begin + 1;
  if (!group.is_repeated) return;
  parts_.pieces.erase(parts_.pieces.begin() + static_cast<std::ptrdiff_t>(closed.begin));
  parts_.pieces.pop_back();
}

void RegexBuilder::repeat(std::string words, const RepeatBounds& bounds) {
  if (!letters_.empty()) {  // the last of them is repeated
    const std::u32string last(1, letters_.back());
    letters_.pop_back();
    begin_atom(one_character);
    here().atom_facts.has_one_way = !letters_ignore_case_;
    put_letters(last);
  }
  OpenGroup& group = here();
  if (!group.atom) reader_.reject("nothing that could be repeated");
  check_repeat(group.atom_facts, words, bounds);
  group.atom_facts = repeated(group.atom_facts, bounds);
  if (group.is_repeated) {
    std::string& last = parts_.pieces.back().text;
    const auto joined = joined_repeat(last, words);
    if (joined) last = joined->words;
    if (joined && !joined->is_optional) return;
    insert_at_atom("(?:");
    put(")");
    if (joined) words = "??";
  }
  parts_.has_kept_groups |=
      bounds.is_kept && parts_.pieces[*group.atom].kind != RegexParts::Piece::Kind::characters;
  put(words);
  group.is_repeated = true;
}

/// Oniguruma ends a repeat with the first match of nothing, however few there were; PCRE2 goes on
/// up to a count. Both find the same if going on finds nothing that was not tried before: if the
/// part tries nothing last, or has no other way to match. Groups must not see it, either.
void RegexBuilder::check_repeat(const MatchFacts& part, std::string_view words,
                                const RepeatBounds& bounds) {
  if (part.takes_one || bounds.most <= 1) return;
  has_captures_of_nothing_ |= part.captures;
  const bool is_counted =
      words.starts_with("{") && (bounds.most != RepeatBounds::unlimited || bounds.least > 1);
  if (is_counted && !part.tries_nothing_last && !part.has_one_way)
    reader_.refuse("two or more of a part that may match nothing before something");
}

RegexParts RegexBuilder::finish() {
  end_letters();
  if (parts_.has_references && has_captures_of_nothing_)
    reader_.refuse("references beside a repeated group that may match nothing");
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
  if (is_lookbehind()) {
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
  parts_.has_inner_alternatives = true;
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
  MatchFacts facts = one_character;
  facts.has_one_way = !letters_ignore_case_;
  here().facts = here().facts.then(facts);
}

void RegexBuilder::end_atom() {
  OpenGroup& group = here();
  group.facts = group.facts.then(group.atom_facts);
  group.atom.reset();
  group.is_repeated = false;
  group.atom_facts = MatchFacts();
}

void RegexBuilder::begin_atom(const MatchFacts& facts) {
  end_letters();
  end_atom();
  here().atom = parts_.pieces.size();
  here().atom_facts = facts;
}

void RegexBuilder::insert_at_atom(std::string_view words) {
  parts_.pieces.insert(parts_.pieces.begin() + static_cast<std::ptrdiff_t>(here().atom.value_or(0)),
                       {RegexParts::Piece::Kind::text, std::string(words), 0});
}

bool RegexBuilder::is_lookbehind() const {
  return std::any_of(open_.begin(), open_.end(), [](const OpenGroup& group) {
    return group.kind == OpenGroup::Kind::look_behind;
  });
}

}  // namespace accrue::data
