#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace accrue::data {

/// The position of something in a text, in bytes.
struct Extent {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Extent&) const = default;
};

/// A regular expression over UTF-8, as in tokenizer.json: in Oniguruma's syntax, with the
/// properties of one version of Unicode (unicode_version()). PCRE2 matches it on kinds of
/// characters instead of characters, so that its own version does not matter. Safe to use from
/// several threads, each with its own Matcher.
class Regex {
 public:
  /// Throws a usage Error of the operation `what` if the pattern is invalid, or has something that
  /// this version does not match.
  Regex(const std::string& pattern, const std::string& what);

  class Matcher;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

/// Finds the matches of one expression in a text, one after the other.
class Regex::Matcher {
 public:
  /// `text` is valid UTF-8, and must outlive this.
  Matcher(const Regex& regex, std::string_view text);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// The first match at the end of the last one or after it; but no empty one at the end of the
  /// last one. Throws a runtime Error if the expression needs more steps than a text may cost, or
  /// if all matches of one text together read more than is linear in its size: a pattern that looks
  /// far ahead at each position takes quadratic time.
  std::optional<Extent> next();

 private:
  /// The first match at `from` or after it, in what PCRE2 sees.
  std::optional<Extent> find(std::size_t from);
  int match(std::size_t from, std::size_t end, std::uint32_t partial);
  /// Counts the bytes read beyond the first window.
  void charge(std::size_t bytes);
  std::size_t next_character(std::size_t at) const;
  std::size_t place_in_text(std::size_t seen);

  struct Data;
  std::shared_ptr<const Code> code_;
  std::unique_ptr<Data> data_;
  std::string_view text_;
  std::string kinds_;      ///< of the text's characters, if PCRE2 sees these
  std::string_view seen_;  ///< what PCRE2 sees
  std::size_t looked_at_ = 0;
  std::size_t from_ = 0;            ///< where the next match may begin
  std::optional<std::size_t> end_;  ///< of the last one
  /// The current character, by its position in what PCRE2 sees and in the text.
  std::size_t seen_at_ = 0, text_at_ = 0;
};

}  // namespace accrue::data
