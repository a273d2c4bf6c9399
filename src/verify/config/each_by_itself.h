#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/added_parts.h"
#include "verify/config/config_subject.h"
#include "verify/config/fixed_sums.h"

namespace accrue::proof {

/// A window's micro-batches, each in a pass by itself with the operations that training takes.
struct EachByItself {
  AddedParts parts;
  std::optional<SplitResult> fixed;   ///< training's fixed-point sums beside theirs, to the unit
  std::vector<std::string> left_out;  ///< parameters that are not compared to the unit
};

/// `fixed_point` is what training's sums were where they are of fixed point.
EachByItself each_by_itself(ConfigSubject& subject, const Parts& parts,
                            const std::optional<FixedPoint>& fixed_point);

}  // namespace accrue::proof
