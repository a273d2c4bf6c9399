#pragma once

#include <cstddef>
#include <limits>

namespace accrue::data {

/// Properties of all matches of a part of a pattern, at each place of a text. That of no parts is
/// the default.
struct MatchFacts {
  bool takes_one = false;          ///< each takes a character
  bool tries_nothing_last = true;  ///< it can match nothing everywhere, and tries that last
  bool has_one_way = true;         ///< there is one way at most in which it matches
  bool captures = false;           ///< a group in it has a number or a name

  /// Of this part with `next` behind it.
  constexpr MatchFacts then(const MatchFacts& next) const {
    return {takes_one || next.takes_one, tries_nothing_last && next.tries_nothing_last,
            has_one_way && next.has_one_way, captures || next.captures};
  }

  /// Of this part, or else of `next`.
  constexpr MatchFacts or_else(const MatchFacts& next) const {
    return {takes_one && next.takes_one, takes_one && next.tries_nothing_last, false,
            captures || next.captures};
  }

  /// Of this part if it keeps the first match that it finds.
  constexpr MatchFacts kept() const {
    return {takes_one, tries_nothing_last && has_one_way, true, captures};
  }
};

inline constexpr MatchFacts one_character{true, false, true, false};
/// Of a mark, of what looks around, and of a reference to a group.
inline constexpr MatchFacts at_some_places{false, false, true, false};

/// How often a part is repeated.
struct RepeatBounds {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
  std::size_t least = 0, most = unlimited;
  bool is_lazy = false;  ///< as few as possible
  bool is_kept = false;  ///< what it has matched
};

constexpr MatchFacts repeated(const MatchFacts& part, const RepeatBounds& bounds) {
  const MatchFacts all{
      part.takes_one && bounds.least > 0,
      !bounds.is_lazy && (part.tries_nothing_last || (part.takes_one && bounds.least == 0)),
      part.has_one_way && bounds.least == bounds.most, part.captures};
  return bounds.is_kept ? all.kept() : all;
}

}  // namespace accrue::data
