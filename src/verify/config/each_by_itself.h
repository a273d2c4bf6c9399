#pragma once

#include <optional>

#include "accrue/verify/report.h"
#include "verify/config/config_subject.h"
#include "verify/config/fixed_sums.h"
#include "verify/findings.h"

namespace accrue::proof {

/// A window's micro-batches, each in a pass by itself with the operations that training takes.
struct EachByItself {
  Gradients sum;
  std::optional<SplitResult> fixed;  ///< training's fixed-point sums beside theirs, to the unit
  double lost_in_bf16 = 0;           ///< what a bf16 sum of them may lose, relative
};

/// `fixed_point` is what training's sums were where they are of fixed point.
EachByItself each_by_itself(ConfigSubject& subject, const Parts& parts,
                            const std::optional<FixedPoint>& fixed_point);

/// Where the sum that training keeps in bf16 has lost no more than it may, that is the cause.
void blame_precision(Blame& blame, const Gradients& kept, const EachByItself& each);

}  // namespace accrue::proof
