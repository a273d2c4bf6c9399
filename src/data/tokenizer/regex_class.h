#pragma once

#include "data/tokenizer/code_points.h"
#include "data/tokenizer/regex_reader.h"

namespace accrue::data {

/// What stands between brackets. Case is ignored before the class is negated.
struct RegexClass {
  CodePoints characters;
  bool is_negated = false;

  CodePoints all() const { return is_negated ? ~characters : characters; }
};

/// Reads a class of Oniguruma's syntax behind its bracket: ranges, properties, POSIX's brackets,
/// classes within classes, and intersections (&&).
RegexClass read_regex_class(RegexReader& reader);

}  // namespace accrue::data
