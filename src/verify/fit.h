#pragma once

#include <vector>

#include "verify/diagnosis.h"
#include "verify/subject.h"

namespace accrue::proof {

using Tensors = std::vector<at::Tensor>;

/// sum of coefficients[k] * parts[k], in fp64.
Tensors combination(const std::vector<Tensors>& parts, const std::vector<double>& coefficients);

/// A gradient in few numbers: each element is added to one of them, with a sign; place and sign are
/// random and the same for all gradients of these shapes (a count sketch: Charikar, Chen and
/// Farach-Colton, 2002). Sums are preserved, and lengths up to a few percent, so a gradient is a
/// combination of others if its sketch is one of theirs. A gradient of few elements is its own
/// sketch. fp64.
at::Tensor sketch_of(const Tensors& gradient);

/// The factor that brings `explanation` nearest to `gradient`, and the residual. `matches` if the
/// residual is at most `tolerance`.
Fit fit_multiple(const Tensors& gradient, const Tensors& explanation, double tolerance);

/// The combination of `parts` nearest to `gradient`. Directions that the parts hardly span are left
/// out. `coefficients` receives one per part.
Fit fit_span(const Tensors& gradient, const std::vector<Tensors>& parts, double tolerance,
             std::vector<double>* coefficients = nullptr);

}  // namespace accrue::proof
