#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "accrue/core/stored_tensor.h"

namespace accrue::distributed::testing {

/// Ranks that change their parameters in different ways, by formula: the training of the tests of
/// outer steps. Parameters have different sizes.
inline const std::vector<std::int64_t> kOuterSizes{4, 9, 2, 16, 5};

inline NamedParameters outer_parameters(at::ScalarType dtype = at::kFloat) {
  NamedParameters parameters;
  for (std::size_t i = 0; i < kOuterSizes.size(); ++i)
    parameters.push_back({"p" + std::to_string(i), at::zeros({kOuterSizes[i]}, dtype)});
  return parameters;
}

/// This rank's change of its element `element` in inner step `step`, from 1.
inline double movement(std::int64_t rank, std::int64_t step, std::int64_t element) {
  return 0.1 * std::sin(1.0 + 7.0 * static_cast<double>(rank) + 3.0 * static_cast<double>(step) +
                        0.5 * static_cast<double>(element));
}

/// The loss terms of a rank's inner step; rank 1 has nothing in the first ten.
inline double weight_of(std::int64_t rank, std::int64_t step) {
  if (rank == 1 && step <= 10) return 0;
  return static_cast<double>(1 + rank + step % 3);
}

inline void move(const NamedParameters& parameters, std::int64_t rank, std::int64_t step) {
  std::int64_t element = 0;
  for (const auto& [name, tensor] : parameters)
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor[i].add_(movement(rank, step, element++));
}

}  // namespace accrue::distributed::testing
