#pragma once

#include "verify/config/config_subject.h"

namespace accrue::proof {

/// One sample, or two where one cannot be run by itself.
batch::Range smallest_pass(ConfigSubject& subject);

/// How many samples one pass may take, by what the smallest one takes: half of the memory that is
/// free, in the machine and in memory.budget.
std::int64_t samples_that_fit(ConfigSubject& subject);

}  // namespace accrue::proof
