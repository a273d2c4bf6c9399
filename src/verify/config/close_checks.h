#pragma once

#include <optional>
#include <string>

#include "verify/config/config_subject.h"
#include "verify/findings.h"
#include "verify/power.h"
#include "verify/split.h"

namespace accrue::proof {

/// The comparisons in which both sides round identically, so that they detect faults hidden by the
/// rounding of a whole pass: each single operation of the model, the gradients that kernels write
/// to slots, and the sum of a window's micro-batches. Writes lines to `report`, and results to
/// `findings`.
class CloseChecks {
 public:
  /// All are kept by reference.
  CloseChecks(ConfigSubject& subject, Findings& findings, Report& report)
      : subject_(subject), findings_(findings), report_(report) {}

  /// Each single operation of the model, if accrue has a kernel for any; and the gradients that
  /// kernels write to slots compared with those that they return to autograd.
  void each_operation(batch::Range samples);
  /// The window as `split` compared with its micro-batches in separate passes; `fixed_point` has
  /// training's sums if they are fixed-point. `sample` as in smallest_faults().
  void separate_passes(const Split& split, const Gradients& training,
                       const std::optional<FixedPoint>& fixed_point, const Gradients& sample);

  const std::optional<Blame>& operation() const { return operation_; }
  const std::optional<Blame>& sums() const { return sums_; }  ///< the first that differ
  bool differ() const { return operation_ || sums_; }
  /// Adds the faults that would have been detected to the links of `power`.
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
