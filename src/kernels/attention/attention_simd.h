#pragma once

#include <cstddef>

#include "kernels/element.h"
#include "kernels/mask.h"

namespace accrue::kernels::rows {

/// What one head attends with: q, k, v are [length, width] with rows `stride` elements apart.
/// Scores, probabilities and sums are in fp32 (fp64 for fp64), whatever `type` is stored.
struct Head {
  Element type;
  bool causal;
  std::size_t length, width;
  const void *q, *k, *v;
  std::size_t stride;
  const DropoutMask* mask;  ///< the probabilities', by query and key; null: all are kept
};

struct HeadForward {
  Head head;
  void* out;
  std::size_t out_stride;
  /// [length] fp32 (fp64): log of the sum of exponentials of each scaled score row
  void* log_sums;
  void* scratch;  ///< 64-byte aligned, head_forward_scratch() elements of fp32 (fp64)
};

void head_forward(const HeadForward& task);
std::size_t head_forward_scratch(std::size_t length, std::size_t width);

struct HeadBackward {
  Head head;
  const void* grad_out;
  std::size_t grad_out_stride;
  const void* log_sums;
  void *grad_q, *grad_k, *grad_v;  ///< rows `head.stride` elements apart
  void* scratch;                   ///< head_backward_scratch() elements
};

/// Recomputes the probabilities by blocks of queries: memory linear in `length`.
void head_backward(const HeadBackward& task);
std::size_t head_backward_scratch(std::size_t length, std::size_t width);

}  // namespace accrue::kernels::rows
