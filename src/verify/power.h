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

/// Single operations, each by itself, would show such a scaling of a matrix' or a vector's
/// gradient.
void sharpen_scaling(std::vector<SmallestFault>& faults, double matrix, double vector);

/// Each kind's smallest of both.
void sharpen(std::vector<SmallestFault>& faults, const std::vector<SmallestFault>& others);
/// The same of faults in how often a sample counts, and of no others.
void sharpen_samples(std::vector<SmallestFault>& faults, std::vector<SmallestFault> others);

/// Whether a fault of each kind that matters would have been noticed.
bool are_conclusive(const std::vector<SmallestFault>& faults);

/// What of the parameters was not compared, or says little: no gradient reaches them from these
/// samples, or theirs all but vanishes.
std::vector<std::string> parameters_left_out(const NamedParameters& parameters,
                                             const Comparison& comparison,
                                             const Gradients& reference);

}  // namespace accrue::proof
