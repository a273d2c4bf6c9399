#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/regex/match_facts.h"
#include "data/tokenizer/regex/regex_class.h"
#include "data/tokenizer/regex/regex_parts.h"
#include "data/tokenizer/regex/regex_reader.h"
#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {

/// A group that is open, or all of the pattern.
struct OpenGroup {
  enum class Kind { plain, capturing, kept, look_ahead, look_behind, other };
  Kind kind = Kind::other;
  std::size_t begin = 0;  ///< its "("

  /// Of the alternative that is put: where what may be repeated begins, whether it is repeated,
  /// what holds of it, and of what stands before it.
  std::optional<std::size_t> atom;
  bool is_repeated = false;
  MatchFacts atom_facts, facts;

  int alternatives = 1;
  std::optional<MatchFacts> others;  ///< of the alternatives before
};

/// Builds a pattern from its parts in order, in PCRE2's syntax, with their meaning in Oniguruma.
/// Errors are the reader's.
class RegexBuilder {
 public:
  explicit RegexBuilder(const RegexReader& reader) : reader_(reader), open_(1) {}

  void letter(char32_t letter, bool ignores_case);
  void one_of(const CodePoints& set);
  void one_of_class(const RegexClass& read, bool ignores_case);
  /// \R: \r\n, which is not divided, or one character that ends a line.
  void end_of_line();
  /// A group's match.
  void reference(std::size_t group);
  /// An assertion: words, or words around one of a set.
  void place(std::string_view words);
  void place(std::string_view before, const CodePoints& set, std::string_view behind);
  void word_boundary(bool is_one);

  /// `words` is its beginning; capturing groups have their own.
  void open(OpenGroup::Kind kind, std::string_view words);
  void open_capturing(bool has_name);
  void next_alternative();
  void close();
  /// Repeats the last letter, set, group or reference.
  void repeat(std::string words, const RepeatBounds& bounds);

  /// The whole pattern, whose groups are closed.
  RegexParts finish();

 private:
  OpenGroup& here() { return open_.back(); }
  void put(std::string_view words);
  void put(const CodePoints& set);
  void put_each(const std::u32string& letters);
  void put_letters(const std::u32string& letters);
  std::size_t put_folded(std::u32string_view letters);
  void put_spelled(const CodePoints& characters, const std::u32string& letters);
  void end_letters();
  void end_atom();
  void begin_atom(const MatchFacts& facts);
  void end_alternative();
  void insert_at_atom(std::string_view words);
  bool is_lookbehind() const;
  void check_repeat(const MatchFacts& part, std::string_view words, const RepeatBounds& bounds);

  const RegexReader& reader_;
  RegexParts parts_;
  std::vector<OpenGroup> open_;
  std::u32string letters_;  ///< that were added, and are not written yet
  bool letters_ignore_case_ = false;
  std::size_t ranges_ = 0;                ///< of all sets
  bool has_captures_of_nothing_ = false;  ///< repeated, which references may see
};

}  // namespace accrue::data
