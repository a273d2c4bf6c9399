#pragma once

#include "accrue/data/source.h"

namespace accrue::cli {

/// Shows on stderr the progress of tokenizing text, if that takes longer than a second: one line
/// that is redrawn on a terminal, occasional lines elsewhere.
data::TellProgress tell_tokenizing();
/// Shows in the same way how many pairs a reference has read.
data::TellProgress tell_reference();

}  // namespace accrue::cli
