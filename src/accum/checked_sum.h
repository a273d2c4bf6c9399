#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <string>

#include "accrue/core/error.h"
#include "accrue/core/loss.h"

namespace accrue {

/// The value of a loss from a user. Throws a usage Error if its sum is not a scalar or its weight
/// is invalid.
inline double checked_sum(const Loss& loss) {
  if (!loss.sum.defined() || loss.sum.numel() != 1)
    throw usage_error(
        "backward", "a loss sum of one element",
        loss.sum.defined() ? std::to_string(loss.sum.numel()) + " elements" : "an undefined tensor",
        "Loss{losses.sum(), number of them}");
  if (loss.sum.is_complex())
    throw usage_error("backward", "a real loss sum",
                      std::string("one of ") + c10::toString(loss.sum.scalar_type()),
                      "Loss{at::real(sum), weight}, or the sum of squared magnitudes, "
                      "at::real(x * x.conj())");
  if (!std::isfinite(loss.weight) || loss.weight < 0)
    throw usage_error("backward", "a finite weight >= 0", std::to_string(loss.weight),
                      "the number of terms in the sum");
  return loss.sum.item<double>();
}

}  // namespace accrue
