#pragma once

#include "verify/config/config_subject.h"

namespace accrue::proof {

/// One sample, or two if a single one cannot be run.
batch::Range smallest_pass(ConfigSubject& subject);

/// The number of samples that one pass may take, according to the memory of the smallest pass: half
/// of the memory that is free, in the machine and in memory.budget.
std::int64_t samples_that_fit(ConfigSubject& subject);

}  // namespace accrue::proof
