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

/// max|actual - expected| / max|expected|, in double; 0 if both are zero.
inline double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().to(at::kDouble), e = expected.detach().to(at::kDouble);
  const double scale = e.numel() == 0 ? 0 : e.abs().max().item<double>();
  const double difference = e.numel() == 0 ? 0 : (a - e).abs().max().item<double>();
  return difference == 0 ? 0 : difference / (scale == 0 ? 1 : scale);
}

/// The share of `expected` in `actual`: <actual, expected> / <expected, expected>, in double; 1 for
/// a reference that is zero.
inline double projection(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().to(at::kDouble), e = expected.detach().to(at::kDouble);
  const double square = e.square().sum().item<double>();
  return square == 0 ? 1 : (a * e).sum().item<double>() / square;
}

/// The allowed distance of a projection from 1. A bound in units of a half-precision epsilon allows
/// some percent of the largest element, so a gradient that is a few percent too large everywhere
/// would pass; roundings of both signs nearly cancel in the projection, a wrong factor does not.
inline constexpr double projection_limit = 0.01;

/// Whether the relative error is at most `bound` and the projection is 1. False for NaN.
inline ::testing::AssertionResult within(const at::Tensor& actual, const at::Tensor& expected,
                                         double bound) {
  if (actual.sizes() != expected.sizes())
    return ::testing::AssertionFailure()
           << "shapes " << actual.sizes() << " and " << expected.sizes();
  const double error = relative_error(actual, expected), part = projection(actual, expected);
  const bool near = error <= bound, whole = std::abs(part - 1) <= projection_limit;
  return (near && whole ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
         << "relative error " << error << (near ? " is within " : " exceeds ") << bound
         << ", projection on the reference " << part << (whole ? "" : " is not 1");
}

/// Whether `actual` equals `expected` up to rounding of sums of `terms` terms in `dtype`.
inline ::testing::AssertionResult close(const at::Tensor& actual, const at::Tensor& expected,
                                        at::ScalarType dtype, std::int64_t terms) {
  return within(actual, expected, tolerance(dtype).bound(terms));
}

}  // namespace accrue::testing
