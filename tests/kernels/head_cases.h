#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "accrue/kernels/prepared_weight.h"

/// The cases of the tests of the head's products (a loss, log-probabilities).
namespace accrue::testing {

struct Case {
  at::ScalarType compute, master;
};
inline constexpr Case all_cases[] = {
    {at::kFloat, at::kFloat}, {at::kDouble, at::kDouble}, {at::kBFloat16, at::kFloat}};
inline std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return c10::toString(info.param.compute);
}

class HeadTest : public ::testing::TestWithParam<Case> {
 protected:
  at::ScalarType compute() const { return GetParam().compute; }
  at::ScalarType master() const { return GetParam().master; }
  kernels::PreparedWeight copy_;
};

/// Few rows fit in one chunk; many make several, of unequal size. Few classes are one block.
struct Sizes {
  std::int64_t batch, length, channels, classes;
};
inline constexpr Sizes all_sizes[] = {{2, 9, 16, 7}, {1, 1, 5, 3}, {3, 50, 8, 24001}};
inline constexpr std::int64_t chunk_rows = 40;

}  // namespace accrue::testing
