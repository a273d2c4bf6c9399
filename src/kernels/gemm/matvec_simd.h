#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace accrue::kernels::rows {

/// out[n] = bias[n] + the sum over k < terms of x[k] * weight[n * stride + k], summed in fp32 (fp64
/// for fp64) and rounded once. Pointers may be unaligned.
struct Matvec {
  Element type;      ///< of x and weight
  Element out_type;  ///< like `type`, or fp32 for bf16
  std::size_t terms, stride;
  const void *x, *weight;
  const void* bias;  ///< fp32 (fp64 for fp64); null: none
  void* out;
};

/// Computes the elements n in [begin, end), each with the same bits whatever the range.
void matvec(const Matvec& task, std::size_t begin, std::size_t end);

}  // namespace accrue::kernels::rows
