#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accrue {

/// A loss as its parts: the sum over tokens (or samples) and how many there were.
///
/// `sum` is a scalar tensor that autograd can differentiate; `weight` is what the batch's mean
/// divides by, mostly the number of terms, finite and not negative. A micro-batch of weight 0 adds
/// its sum and its gradient as others do: of a loss divided by the batch's positives it may have
/// none. The mean is taken once, when the window closes, so the same batch gives the same gradient
/// however it was split.
struct Loss {
  at::Tensor sum;
  double weight = 0;
  /// What else is told of the same terms, as sums over them (models::LossHead::measures).
  std::vector<double> measures = {};
};

}  // namespace accrue
