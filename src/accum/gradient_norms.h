#pragma once

#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// Adam's divisor of a gradient's elements: sqrt(second moment) * correction + eps.
struct Preconditioner {
  /// By entry of the buffer: fp32, contiguous, on the CPU, in the parameter's shape.
  std::vector<at::Tensor> second_moments;
  double correction = 1;
  double eps = 1e-8;
};

/// These functions take a buffer's current sums, between two micro-batches or when the window is
/// closed (not a shard of them): fresh slots count as 0. The same bits for any number of
/// threads.

/// The sum of squares, by entry.
std::vector<double> squared_norms(const GradientBuffer& buffer);
/// The sum of absolute values, over all entries.
double absolute_sum(const GradientBuffer& buffer);
/// The sum of squares over Adam's divisors: the squared length of a gradient in the metric in which
/// Adam descends.
double preconditioned_square(const GradientBuffer& buffer, const Preconditioner& preconditioner);

}  // namespace accrue::accum
