#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accrue {

/// A loss as its parts: the sum over tokens (or samples) and how many there were.
///
/// `sum` is a scalar tensor that autograd can differentiate; `weight` is the number of terms in it,
/// finite and not negative (0: an empty micro-batch, which contributes nothing). The mean is taken
/// once, when the window closes, so the same batch gives the same gradient however it was split.
struct Loss {
  at::Tensor sum;
  double weight = 0;
  /// What else is told of the same terms, as sums over them (models::LossHead::measures).
  std::vector<double> measures = {};
};

}  // namespace accrue
