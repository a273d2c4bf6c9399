#pragma once

#include "accrue/data/source.h"

namespace accrue::cli {

/// Shows on stderr how far text has become tokens, where that takes longer than a second: one line
/// that is redrawn on a terminal, a line now and then elsewhere.
data::TellProgress tell_tokenizing();
/// Shows in the same way how many pairs a reference has read.
data::TellProgress tell_reference();

}  // namespace accrue::cli
