#pragma once

#include <vector>

#include "accrue/verify/report.h"
#include "verify/comparison.h"

namespace accrue::proof {

/// A comparison that misses a gradient scaled by more than this proves nothing.
inline constexpr double most_conclusive_fault = 0.01;

/// The smallest faults that `comparison` with `reference` would have detected, in any parameter: by
/// the bounds of those in which they are least visible. Parameters whose gradient is close to 0 are
/// left to left_out(). `sample` is the gradient of one of `samples` (none: an empty one); a fault
/// in how often it counts is stated by its share of the weight.
std::vector<SmallestFault> smallest_faults(const NamedParameters& parameters,
                                           const Comparison& comparison, const Gradients& reference,
                                           const Gradients& sample);

/// The faults that each comparison of a run would have detected; empty if one was not made.
struct Power {
  std::vector<SmallestFault> window;  ///< by training, compared with plain passes
  /// Links of a chain from ATen's operators to the window's sums. Together they detect a scaled
  /// gradient, wherever the scaling takes place, as well as the weakest of them does.
  std::vector<SmallestFault> operations, slots, sums;
  std::vector<SmallestFault> steps;  ///< of each horizon
};

/// The faults that a run would have detected, each kind once: a scaled gradient by the window or by
/// the chain, whichever detects less; a wrong count of a sample only by the window, and of a
/// micro-batch by its sums.
std::vector<SmallestFault> smallest_faults_of(const Power& power);

/// The kinds "scaled gradient" of parameters of two dimensions and more, and of fewer.
std::vector<SmallestFault> scaled_faults(double matrix, double vector);

/// By what part gradients may be scaled and not be noticed; 0 if no such fault is among them.
double largest_scaled(const std::vector<SmallestFault>& faults);

/// Whether gradients that are scaled would have been noticed. Wrong counts also show in weights
/// and draws, and steps have a bound of their own (StepsResult::conclusive).
bool are_conclusive(const std::vector<SmallestFault>& faults);

/// Parameters that were not compared, or whose comparison shows little: no gradient reaches them
/// from these samples, or theirs is close to 0.
std::vector<std::string> parameters_left_out(const NamedParameters& parameters,
                                             const Comparison& comparison);

}  // namespace accrue::proof
