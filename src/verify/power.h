#pragma once

#include <vector>

#include "accrue/verify/report.h"
#include "verify/comparison.h"

namespace accrue::proof {

/// A comparison that lets a gradient that is scaled by more than this pass proves nothing.
inline constexpr double most_conclusive_fault = 0.01;

/// The smallest faults that `comparison` with `reference` would have noticed, whichever parameter
/// they are in: by the bounds of those in which they show least. Parameters whose gradient all but
/// vanishes are left to left_out(). `sample` is the gradient of one of `samples` (none: an empty
/// one); a fault in how often it counts is told by its share of the weight.
std::vector<SmallestFault> smallest_faults(const NamedParameters& parameters,
                                           const Comparison& comparison, const Gradients& reference,
                                           const Gradients& sample);

/// What the comparisons of a run would each have noticed; empty if one was not made.
struct Power {
  std::vector<SmallestFault> window;  ///< as training runs it, beside plain passes
  /// Links of a chain from ATen's operators to the window's sums. All of them together show a
  /// gradient that is scaled, wherever that is done, as the weakest of them does.
  std::vector<SmallestFault> operations, slots, sums;
  std::vector<SmallestFault> steps;  ///< of each horizon
};

/// What a run would have noticed, each kind once: of a gradient that is scaled by the window or by
/// the chain, whichever shows less; of how often a sample counts by the window alone, and of how
/// often a micro-batch does by its sums.
std::vector<SmallestFault> smallest_faults_of(const Power& power);

/// The kinds "scaled gradient" of parameters of two dimensions and more, and of fewer.
std::vector<SmallestFault> scaled_faults(double matrix, double vector);

/// By what part gradients may be scaled and not be noticed; 0 if no such fault is among them.
double largest_scaled(const std::vector<SmallestFault>& faults);

/// Whether gradients that are scaled would have been noticed. What counts otherwise is told by
/// weights and draws, too, and steps have a bound of their own (StepsResult::conclusive).
bool are_conclusive(const std::vector<SmallestFault>& faults);

/// What of the parameters was not compared, or says little: no gradient reaches them from these
/// samples, or theirs all but vanishes.
std::vector<std::string> parameters_left_out(const NamedParameters& parameters,
                                             const Comparison& comparison,
                                             const Gradients& reference);

}  // namespace accrue::proof
