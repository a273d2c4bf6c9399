#include "verify/config/close_checks.h"

#include <algorithm>
#include <iterator>

#include "verify/config/separate_passes.h"
#include "verify/operations/operation_check.h"
#include "verify/text.h"

namespace accrue::proof {

void CloseChecks::note(SplitResult result) {
  if (!result.equal && !sums_)
    sums_ = {.place = Place::sums,
             .evidence = {result.name +
                          ": sums of the same gradients differ by more than sums may lose, most "
                          "in " +
                          result.parameter},
             .error = result.relative_error,
             .bound = result.bound};
  report_.splits.push_back(std::move(result));
}

Comparison CloseChecks::closely(const std::string& name, const Parts& parts,
                                const Gradients& actual, const Gradients& reference) {
  const Comparison comparison = compare_closely(subject_.parameters(), actual, reference);
  findings_.add(comparison);
  note(result_of(name, parts.back().end - parts.front().begin, std::ssize(parts),
                 subject_.parameters(), comparison));
  return comparison;
}

void CloseChecks::each_operation(batch::Range samples) {
  const std::optional<OperationCheck> operations = check_operations(subject_, samples);
  if (!operations) return;
  report_.splits.push_back(operations->result);
  if (operations->differing)
    operation_ = {.place = Place::operations,
                  .evidence = {text_of(*operations->differing)},
                  .error = operations->differing->worst.error,
                  .bound = operations->differing->worst.bound};
  const Comparison slots = closely("slots, beside what kernels return", {samples},
                                   subject_.native_pass(samples, {}), operations->returned);
  links_.operations = operations->noticed;
  links_.slots = smallest_faults(subject_.parameters(), slots, operations->returned, {});
}

void CloseChecks::separate_passes(const Split& split, const Gradients& training,
                                  const std::optional<FixedPoint>& fixed_point,
                                  const Gradients& sample) {
  const SeparatePasses each = proof::separate_passes(subject_, split.parts, fixed_point);
  if (each.fixed) note(*each.fixed);
  if (!each.left_out.empty())
    report_.left_out.push_back("fixed-point sums to the unit of " + first_names(each.left_out) +
                               ": several places of a micro-batch add to it, of which only the "
                               "sum is known");
  const bool first = !sums_;
  const Gradients& sum = each.parts.total();
  const Comparison comparison =
      closely(split.name + ", beside each by itself", split.parts, training, sum);
  links_.sums = smallest_faults(subject_.parameters(), comparison, sum, sample);
  if (!first || !comparison.exceeds()) return;
  const Diagnosis found =
      diagnose_sum(each.parts.explain(subject_.parameters(), training, subject_.sum_roundoff()));
  sums_->cause = found.cause;
  std::ranges::copy(found.evidence, std::back_inserter(sums_->evidence));
}

void CloseChecks::add_to(Power& power) const {
  power.operations = links_.operations;
  power.slots = links_.slots;
  power.sums = links_.sums;
}

}  // namespace accrue::proof
