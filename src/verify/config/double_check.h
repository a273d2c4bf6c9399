#pragma once

#include <memory>
#include <optional>

#include "accrue/verify/report.h"
#include "verify/config/config_subject.h"
#include "verify/findings.h"
#include "verify/prover.h"

namespace accrue::proof {

/// The result of the reference in fp64: the model's splits compared with one plain pass.
struct DoubleCheck {
  std::unique_ptr<ConfigSubject> twin;
  Comparison comparison;
  std::optional<Diagnosis> diagnosis;  ///< of a difference
  std::optional<Blame> distance;       ///< of a gradient too far from fp64's
};

/// Compares uneven parts of `samples` in fp64, and the gradient that training's operations
/// compute of them with fp64's. The distance allowed is that of passes by ATen's operators with
/// different rounding (by the usual bound). Adds the lines and omissions to `report`. Nothing if
/// there is no fp64 reference: the config computes in fp64, or the model or the memory does not
/// allow it.
std::optional<DoubleCheck> check_in_double(ConfigSubject& subject, batch::Range samples,
                                           Report& report);

}  // namespace accrue::proof
