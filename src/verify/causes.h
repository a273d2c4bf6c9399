#pragma once

#include "accrue/verify/report.h"

namespace accrue::proof {

/// The meaning of a cause, and its remedy, each a clause for people; both are empty for `none` and
/// `unknown`, which Report::place describes further.
struct CauseInWords {
  const char* meaning;
  const char* remedy;
};
CauseInWords in_words(Cause cause);

}  // namespace accrue::proof
