#pragma once

#include <optional>

#include "verify/diagnosis.h"
#include "verify/findings.h"
#include "verify/prover.h"

namespace accrue::proof {

/// If rounding hides too much (bf16, kinks), fp64 decides, if available: on a few samples, at the
/// current parameters, and if these are on kinks, also near them. Sets Report::conclusive. Returns
/// the fault that it finds.
std::optional<Diagnosis> confirm_in_double(Subject& subject, const Prover& prover,
                                           Findings& findings, Report& report);

}  // namespace accrue::proof
