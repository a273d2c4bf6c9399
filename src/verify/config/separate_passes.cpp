#include "verify/config/separate_passes.h"

namespace accrue::proof {

SeparatePasses separate_passes(ConfigSubject& subject, const Parts& parts,
                               const std::optional<FixedPoint>& fixed_point) {
  SeparatePasses result{.parts = AddedParts(parts.size(), subject.sum_roundoff() > 0)};
  std::optional<FixedSums> fixed;
  if (fixed_point) fixed.emplace(*fixed_point, subject.parameters(), subject.shared_parameters());
  for (const batch::Range samples : parts) {
    const Gradients part = subject.native_pass(samples, {});
    result.parts.add(part);
    if (fixed) fixed->add(part);
  }
  if (!fixed) return result;
  result.fixed = fixed->result(subject.samples());
  result.left_out = fixed->left_out();
  return result;
}

}  // namespace accrue::proof
