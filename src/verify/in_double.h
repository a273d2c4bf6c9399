#pragma once

#include <optional>

#include "verify/diagnosis.h"
#include "verify/findings.h"
#include "verify/prover.h"

namespace accrue::proof {

/// If rounding hides too much (bf16, kinks) fp64 decides, if it can be had: on a few samples, at
/// the parameters as they are, and where these lie on kinks themselves, also near them. Sets
/// Report::conclusive. Returns what it finds wrong.
std::optional<Diagnosis> confirm_in_double(Subject& subject, const Prover& prover,
                                           Findings& findings, Report& report);

}  // namespace accrue::proof
