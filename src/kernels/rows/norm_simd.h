#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace accrue::kernels::rows {

/// `rows` rows of `columns` elements each, densely packed. `master` (fp32 or fp64) is the type of
/// sum, weight, bias and the statistics.
struct NormForward {
  Element master, x_type, y_type, out_type;
  std::size_t rows, columns;
  double eps;
  const void* x;  ///< master, or bf16 if there is no y
  const void* y;  ///< null: the norm of x itself
  void* sum;      ///< x + y; unused without y
  const void* weight;
  const void* bias;  ///< null: the rows are divided by their root mean square, and not centred
  void* out;
  /// [rows, 2]: mean and 1 / sqrt(variance + eps); or 0 and 1 / sqrt(mean square + eps)
  void* statistics;
};

/// Writes out, statistics and, with y, sum.
void norm_forward(const NormForward& task);

struct NormBackward {
  Element master, input_type, out_type;
  std::size_t rows, columns;
  const void* grad_out;  ///< out_type; the gradient of the normalised result
  /// Another gradient of the norm's input, of type `master`; may be null.
  const void* grad_sum;
  const void* input;  ///< input_type: master, or bf16
  const void* statistics;
  const void* weight;
  void* grad_input;   ///< input_type
  void* grad_y;       ///< the same gradient as bf16; may be null
  void* weight_sums;  ///< [columns] master, added to
  void* bias_sums;    ///< [columns] master, added to; null if there is no bias
};

void norm_backward(const NormBackward& task);

}  // namespace accrue::kernels::rows
