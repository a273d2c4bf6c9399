#pragma once

#include <optional>
#include <string>

#include "verify/config/config_subject.h"
#include "verify/findings.h"
#include "verify/power.h"
#include "verify/split.h"

namespace accrue::proof {

/// The comparisons in which both sides round alike, so that a fault shows that is lost in the
/// rounding of a whole pass: each operation of the model by itself, what kernels put into slots,
/// and the sum of a window's micro-batches. Lines go into `report`, what they found into
/// `findings`.
class CloseChecks {
 public:
  /// All are kept by reference.
  CloseChecks(ConfigSubject& subject, Findings& findings, Report& report)
      : subject_(subject), findings_(findings), report_(report) {}

  /// Each operation of the model by itself, where accrue has a kernel for any; and what kernels put
  /// into slots beside what they return to autograd.
  void each_operation(batch::Range samples);
  /// The window as `split` beside its micro-batches each in a pass by itself; `fixed_point` is what
  /// training's sums were where they are of fixed point. `sample` as for smallest_faults().
  void each_by_itself(const Split& split, const Gradients& training,
                      const std::optional<FixedPoint>& fixed_point, const Gradients& sample);

  const std::optional<Blame>& operation() const { return operation_; }
  const std::optional<Blame>& sums() const { return sums_; }  ///< the first that differ
  bool differ() const { return operation_ || sums_; }
  /// Puts what would have been noticed into the links of `power`.
  void add_to(Power& power) const;

 private:
  Comparison closely(const std::string& name, const Parts& parts, const Gradients& actual,
                     const Gradients& reference);
  void note(SplitResult result);

  ConfigSubject& subject_;
  Findings& findings_;
  Report& report_;
  std::optional<Blame> operation_, sums_;
  Power links_;
};

}  // namespace accrue::proof
