#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accrue {

/// A loss as the sum over tokens (or samples) and the weight that its mean divides by.
///
/// `sum` is a scalar tensor that autograd can differentiate. `weight` is this batch's part of the
/// mean's denominator, usually the number of terms; it must be finite and not negative. A
/// micro-batch of weight 0 still adds its sum and gradient: a loss divided by the number of
/// positives may have none in it. The mean is taken once, when the window closes, so the same batch
/// gives the same gradient however it was split.
struct Loss {
  at::Tensor sum;
  double weight = 0;
  /// Other measures of the same terms, as sums over them (models::LossHead::measures).
  std::vector<double> measures = {};
};

}  // namespace accrue
