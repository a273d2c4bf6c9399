#pragma once

#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// What Adam divides a gradient's elements by: sqrt(second moment) * correction + eps.
struct Preconditioner {
  /// By entry of the buffer, fp32, contiguous, on the CPU, of the parameter's shape.
  std::vector<at::Tensor> second_moments;
  double correction = 1;
  double eps = 1e-8;
};

/// These are of a buffer's sums as they are, between two micro-batches or when the window is closed
/// (not of a shard of them): slots that are fresh count as 0. The same bits for any number of
/// threads.

/// Squares added up, by entry.
std::vector<double> squared_norms(const GradientBuffer& buffer);
/// Absolute values added up, over all entries.
double absolute_sum(const GradientBuffer& buffer);
/// Squares over what Adam divides by, added up: the squared length of a gradient in the metric in
/// which Adam descends.
double preconditioned_square(const GradientBuffer& buffer, const Preconditioner& preconditioner);

}  // namespace accrue::accum
