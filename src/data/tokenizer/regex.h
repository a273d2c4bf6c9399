#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace accrue::data {

/// Where something lies in a text, in bytes.
struct Extent {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Extent&) const = default;
};

/// A regular expression over UTF-8, with Unicode's classes, as tokenizer.json states them
/// (Oniguruma's syntax there, PCRE2's here; `\s` is Unicode's White_Space in both). Safe to use
/// from several threads, each with a Matcher of its own.
class Regex {
 public:
  /// Throws a usage Error, its operation being `what`, where the pattern is none, or has
  /// something that the two libraries understand differently.
  Regex(const std::string& pattern, const std::string& what);

  class Matcher;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

/// Finds matches of one expression, one after the other.
class Regex::Matcher {
 public:
  explicit Matcher(const Regex& regex);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// The first match in `text`, which is valid UTF-8, at `from` or behind it; matches of nothing
  /// are passed over. Throws a runtime Error if the expression needs more steps than a text may
  /// cost, or if all matches of one text look at more of it than is linear in its size: a pattern
  /// that looks far ahead at each place takes time quadratic in it.
  std::optional<Extent> find(std::string_view text, std::size_t from);

 private:
  /// Counts what was looked at beyond the first window.
  void charge(std::size_t bytes, std::size_t text_bytes);

  struct Data;
  std::shared_ptr<const Code> code_;
  std::unique_ptr<Data> data_;
  std::size_t looked_at_ = 0;
};

}  // namespace accrue::data
