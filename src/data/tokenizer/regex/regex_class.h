#pragma once

#include "data/tokenizer/regex/regex_reader.h"
#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {

/// The contents of brackets. Case is ignored before the class is negated.
struct RegexClass {
  CodePoints characters;
  bool is_negated = false;

  CodePoints all() const { return is_negated ? ~characters : characters; }
};

/// Reads a class of Oniguruma's syntax after its bracket: ranges, properties, POSIX's brackets,
/// nested classes, and intersections (&&).
RegexClass read_regex_class(RegexReader& reader);

}  // namespace accrue::data
