#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/added_parts.h"
#include "verify/config/config_subject.h"
#include "verify/config/fixed_sums.h"

namespace accrue::proof {

/// A window's micro-batches in separate passes, with the operations of training.
struct SeparatePasses {
  AddedParts parts;
  std::optional<SplitResult> fixed;   ///< training's fixed-point sums compared with theirs
  std::vector<std::string> left_out;  ///< parameters that are not compared to the unit
};

/// `fixed_point` has training's sums if they are fixed-point.
SeparatePasses separate_passes(ConfigSubject& subject, const Parts& parts,
                               const std::optional<FixedPoint>& fixed_point);

}  // namespace accrue::proof
