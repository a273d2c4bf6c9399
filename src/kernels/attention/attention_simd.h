#pragma once

#include <cstddef>

#include "kernels/element.h"
#include "kernels/mask.h"

namespace accrue::kernels::rows {

/// One head of keys and values, [length, width] with rows `kv_stride` elements apart, and the heads
/// of queries that attend with it, side by side: [length, group * width] with rows `q_stride`
/// elements apart. Scores, probabilities and sums are in fp32 (fp64 for fp64), whatever `type` is
/// stored.
struct Head {
  Element type;
  bool causal;
  std::size_t length, width;
  std::size_t group = 1;   ///< heads of queries
  std::size_t window = 0;  ///< the most keys that a causal query sees, including its own; 0: all
  double scale = 1;        ///< of the scores
  double soft_cap = 0;     ///< of the scaled scores; 0: none
  const void *q, *k, *v;
  std::size_t q_stride, kv_stride;
  const DropoutMask* masks;  ///< [group] the probabilities', by query and key; null: all are kept
};

struct HeadForward {
  Head head;
  void* out;  ///< [length, group * width]
  std::size_t out_stride;
  /// [group, length] fp32 (fp64): log of the sum of exponentials of each row of final scores
  void* log_sums;
  std::size_t log_sums_stride;
  void* scratch;  ///< 64-byte aligned, head_forward_scratch() elements of fp32 (fp64)
};

void head_forward(const HeadForward& task);
std::size_t head_forward_scratch(std::size_t length, std::size_t width);

struct HeadBackward {
  Head head;
  const void* grad_out;
  std::size_t grad_out_stride;
  const void* log_sums;
  std::size_t log_sums_stride;
  /// Rows with the strides of q, k and v. Those of k and v are sums over the group, rounded
  /// once.
  void *grad_q, *grad_k, *grad_v;
  void* scratch;  ///< head_backward_scratch() elements
};

/// Recomputes the probabilities by blocks of queries: memory linear in `length`.
void head_backward(const HeadBackward& task);
std::size_t head_backward_scratch(std::size_t length, std::size_t width);

}  // namespace accrue::kernels::rows
