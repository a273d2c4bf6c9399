#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {

/// A pattern in PCRE2's syntax, cut where it names characters and groups.
struct RegexParts {
  struct Piece {
    enum class Kind {
      text,         ///< unchanged
      characters,   ///< one of the set `number`
      group,        ///< "(" of a group without a name
      named_group,  ///< "(" of one with a name
      reference,    ///< the match of group `number`, from 1
    };
    Kind kind = Kind::text;
    std::string text;
    std::size_t number = 0;
  };

  std::vector<Piece> pieces;
  std::vector<CodePoints> sets;
  bool has_references = false;
  /// If set, groups without a name have no number.
  bool has_names = false;
  bool has_inner_alternatives = false;  ///< alternatives within a group
  bool has_kept_groups = false;         ///< (?>...), or a possessive repeat of a group
};

}  // namespace accrue::data
