#include <algorithm>

#include "verify/diagnosis.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

using LoopExplanation = std::optional<Diagnosis>;

std::string factor_text(const LoopObservations& seen) {
  const double factor = seen.multiple.factor, parts = static_cast<double>(seen.micro_batches);
  const double close = 1e-3;
  if (same(factor, seen.total_weight, close)) return "the total weight: a sum in place of the mean";
  if (same(factor, parts, close))
    return "the number of micro-batches: the sum of their means, not divided";
  return "a constant factor";
}

LoopExplanation by_watching(const LoopObservations& seen) {
  const std::string of = " of " + std::to_string(seen.micro_batches);
  if (seen.stepped_before >= 0)
    return Diagnosis{Cause::stepped_mid_window,
                     {"parameter " + seen.stepped_parameter + " had changed when backward " +
                          std::to_string(seen.stepped_before + 1) + of + " began",
                      "call step() once, after the last micro-batch"}};
  // A loop that keeps its sums elsewhere also has nothing in .grad.
  if (seen.zeroed_before >= 0 && (seen.saw_sums || seen.tail.matches)) {
    Diagnosis found{Cause::zeroed_mid_window,
                    {"the sum in .grad of " + seen.zeroed_parameter + " was gone when backward " +
                     std::to_string(seen.zeroed_before + 1) + of + " began"}};
    if (seen.tail.matches)
      found.evidence.push_back("what is left is the gradient of micro-batches from " +
                               std::to_string(seen.tail_begins + 1) + " on, " +
                               digits(seen.tail.residual));
    return found;
  }
  return {};
}

/// Rounding is the explanation only if it leaves clearly less than any exact one.
LoopExplanation by_low_precision(const LoopObservations& seen) {
  const double others =
      std::min({seen.multiple.residual, seen.mean_of_means.residual, seen.tail.residual});
  if (!seen.low_precision.matches || seen.low_precision.residual > others / 2) return {};
  return Diagnosis{Cause::precision,
                   {"adding the micro-batches' gradients in " + seen.gradient_dtype +
                    " gives the loop's gradient, " + digits(seen.low_precision.residual)}};
}

/// Whether the remainder of a correct gradient is 1 / the number of micro-batches of it.
bool is_divided_once_more(const LoopObservations& seen, const Fit& fit) {
  return same(fit.factor, 1 / static_cast<double>(seen.micro_batches), 1e-3);
}

Diagnosis of_multiple(const LoopObservations& seen) {
  const std::string found = "the loop's gradient is " + number(seen.multiple.factor) +
                            " times the true one, " + digits(seen.multiple.residual) + ": ";
  if (is_divided_once_more(seen, seen.multiple))
    return {.cause = Cause::scaled_twice,
            .evidence = {found + "1 / the number of micro-batches, divided once too often"},
            .factor = seen.multiple.factor};
  return {.cause = Cause::normalization,
          .evidence = {found + factor_text(seen)},
          .factor = seen.multiple.factor};
}

Diagnosis of_mean_of_means(const LoopObservations& seen) {
  Diagnosis found{Cause::weighting,
                  {"the loop's gradient is the mean of the micro-batches' means, " +
                   digits(seen.mean_of_means.residual) +
                   ", which is not the batch's mean where lengths differ"}};
  if (is_divided_once_more(seen, seen.mean_of_means)) {
    found.besides.push_back(Cause::scaled_twice);
    found.evidence.push_back("and it is divided by the number of micro-batches once too often");
  } else if (!same(seen.mean_of_means.factor, 1, 1e-3)) {
    found.evidence.push_back("and off by a factor of " + number(seen.mean_of_means.factor));
  }
  return found;
}

Diagnosis of_tail(const LoopObservations& seen) {
  if (seen.tail_begins == seen.micro_batches - 1)
    return {Cause::last_micro_batch_only,
            {"the loop's gradient is that of the last of " + std::to_string(seen.micro_batches) +
             " micro-batches alone, " + digits(seen.tail.residual)}};
  return {
      Cause::zeroed_mid_window,
      {"the loop's gradient is that of micro-batches from " + std::to_string(seen.tail_begins + 1) +
       " of " + std::to_string(seen.micro_batches) + " on alone, " + digits(seen.tail.residual)}};
}

/// Each micro-batch's mean gradient was scaled down to one norm, unless it was below it.
bool are_clipped(const LoopObservations& seen) {
  if (seen.part_norms.size() != seen.shares.size()) return false;
  double norm = 0;  // of the clipped ones
  for (std::size_t k = 0; k < seen.shares.size(); ++k)
    norm = std::max(norm, seen.mean_shares[k] * seen.part_norms[k]);
  std::size_t clipped = 0, whole = 0;
  const double full = *std::ranges::max_element(seen.mean_shares);
  for (std::size_t k = 0; k < seen.shares.size(); ++k) {
    const bool at_limit = same(seen.mean_shares[k] * seen.part_norms[k], norm, 1e-3);
    const bool is_whole = same(seen.mean_shares[k], full, 1e-3);
    if (!at_limit && !is_whole) return false;
    clipped += at_limit ? 1 : 0;
    whole += is_whole && !at_limit ? 1 : 0;
  }
  return clipped >= 2 && clipped + whole == seen.shares.size();
}

Diagnosis of_span(const LoopObservations& seen) {
  if (are_clipped(seen))
    return {Cause::clip_per_micro_batch,
            {"the loop's gradient is a weighted sum of the micro-batches', " +
                 digits(seen.span.residual) + ", with weights that bring them to one norm",
             "each counts by this multiple of its due: " + numbers(seen.shares)}};
  return {
      Cause::weighting,
      {"the loop's gradient is a weighted sum of the micro-batches', " + digits(seen.span.residual),
       "each counts by this multiple of its due: " + numbers(seen.shares)}};
}

LoopExplanation by_fit(const LoopObservations& seen) {
  if (seen.multiple.matches) return of_multiple(seen);
  if (seen.mean_of_means.matches) return of_mean_of_means(seen);
  if (seen.tail.matches) return of_tail(seen);
  if (seen.span.matches) return of_span(seen);
  return {};
}

}  // namespace

Diagnosis diagnose_loop(const LoopObservations& seen) {
  if (!seen.difference.exceeds()) return {};
  Diagnosis result;
  if (LoopExplanation found = by_watching(seen)) {
    result = *found;
  } else if (seen.no_gradient) {
    result = {Cause::zeroed_mid_window,
              {"no gradient is left in .grad of any parameter after the loop",
               "clear gradients before the first micro-batch, not after the last"}};
  } else if (seen.repeated && seen.repeated->exceeds()) {
    result = {Cause::nondeterminism,
              {"the loop, run twice from the same seed, differs by " +
               number(seen.repeated->relative_error)}};
  } else if (LoopExplanation rounded = by_low_precision(seen)) {
    result = *rounded;
  } else if (LoopExplanation fitted = by_fit(seen)) {
    result = *fitted;
  } else if (seen.parameters_changed) {
    result = {Cause::stepped_mid_window,
              {"parameters differ after the loop, and its gradient is no combination of those of "
               "its micro-batches at the parameters before it"}};
  } else {
    result = {Cause::weighting,
              {"the loop's gradient is no combination of the gradients of its micro-batches (the "
               "best leaves " +
               number(seen.span.residual) +
               " of it): it clips, scales by element, or computes another loss"}};
  }
  result.evidence.insert(result.evidence.begin(),
                         "the loop's gradient and that of one pass differ "
                         "by " +
                             number(seen.difference.relative_error));
  return result;
}

}  // namespace accrue::proof
