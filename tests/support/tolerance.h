#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace accrue::testing {

/// The one tolerance table. Bounds are relative to the largest element of the reference and derived
/// from the dtype's unit roundoff u and the number of terms n that each element sums:
/// a sum of n rounded products in any order differs from the exact one by at most about n*u in the
/// worst case and sqrt(n)*u for random signs (Higham, "Accuracy and Stability of Numerical
/// Algorithms", 2002, section 4.2). We allow `safety` times the random-sign bound: both sides
/// round.
struct Tolerance {
  double unit_roundoff;
  double safety = 16;
  double bound(std::int64_t terms) const {
    return safety * unit_roundoff * std::sqrt(static_cast<double>(terms));
  }
};

inline Tolerance tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return {0x1p-53};
    case at::kFloat:
      return {0x1p-24};
    case at::kBFloat16:
      return {0x1p-9, 4};
    default:
      ADD_FAILURE() << "no tolerance for this dtype";
      return {0};
  }
}

/// max|actual - expected| / max|expected|, in double; 0 where both are zero.
inline double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().to(at::kDouble), e = expected.detach().to(at::kDouble);
  const double scale = e.numel() == 0 ? 0 : e.abs().max().item<double>();
  const double difference = e.numel() == 0 ? 0 : (a - e).abs().max().item<double>();
  return difference == 0 ? 0 : difference / (scale == 0 ? 1 : scale);
}

/// Whether `actual` equals `expected` up to rounding of sums of `terms` terms in `dtype`. NaN never
/// does.
inline ::testing::AssertionResult close(const at::Tensor& actual, const at::Tensor& expected,
                                        at::ScalarType dtype, std::int64_t terms) {
  if (actual.sizes() != expected.sizes())
    return ::testing::AssertionFailure()
           << "shapes " << actual.sizes() << " and " << expected.sizes();
  const double error = relative_error(actual, expected);
  const double bound = tolerance(dtype).bound(terms);
  if (error <= bound)
    return ::testing::AssertionSuccess() << "relative error " << error << " is within " << bound;
  return ::testing::AssertionFailure() << "relative error " << error << " exceeds " << bound;
}

}  // namespace accrue::testing
