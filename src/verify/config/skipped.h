#pragma once

#include <exception>
#include <optional>
#include <string>

#include "verify/prover.h"

namespace accrue::proof {

/// The reason why `error` prevents parts of one sample: batch normalisation in training mode has
/// one value per channel, which has no variance. Empty for any other error.
std::optional<std::string> why_one_sample_fails(const std::exception& error);

/// Runs a split into report.splits and returns true; one with a part of one sample that cannot be
/// run goes into report.skipped. Other exceptions are rethrown.
bool check_or_skip(Prover& prover, const Split& split, Findings& findings, Report& report);

/// Throws a usage Error if splits were skipped, and no other that cuts the batch was run.
void require_some_split(const Report& report, std::int64_t samples);

}  // namespace accrue::proof
