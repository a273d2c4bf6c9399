#include "verify/config/each_by_itself.h"

#include "verify/comparison.h"
#include "verify/running_sum.h"
#include "verify/text.h"

namespace accrue::proof {

EachByItself each_by_itself(ConfigSubject& subject, const Parts& parts,
                            const std::optional<FixedPoint>& fixed_point) {
  RunningSum running;
  std::optional<FixedSums> fixed;
  if (fixed_point) fixed.emplace(*fixed_point, subject.parameters(), subject.shared_parameters());
  for (const batch::Range samples : parts) {
    const Gradients part = subject.native_pass(samples, {});
    running.add(part);
    if (fixed) fixed->add(part);
  }
  EachByItself result{.sum = running.total(), .lost_in_bf16 = running.lost_in_bf16()};
  if (fixed) result.fixed = fixed->result(subject.samples());
  return result;
}

void blame_precision(Blame& blame, const Gradients& kept, const EachByItself& each) {
  const double lost = relative_error(kept, each.sum);
  if (lost > each.lost_in_bf16) return;
  blame.cause = Cause::precision;
  blame.what += "; the sum that training keeps of them loses " + number(lost) +
                ", which its precision may (" + number(each.lost_in_bf16) + ")";
}

}  // namespace accrue::proof
