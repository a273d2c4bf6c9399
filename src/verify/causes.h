#pragma once

#include "accrue/verify/report.h"

namespace accrue::proof {

/// What a cause means, and what to do about it, each a clause for people; both are empty for `none`
/// and `unknown`, of which Report::place tells more.
struct CauseInWords {
  const char* meaning;
  const char* remedy;
};
CauseInWords in_words(Cause cause);

}  // namespace accrue::proof
