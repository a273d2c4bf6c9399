#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace accrue::kernels::rows {

/// The heads of queries of one position that share a head of keys and values, and the keys that
/// they see. Scores, probabilities and sums are in fp32 (fp64 for fp64), whatever `type` is stored.
struct CachedQueries {
  Element type;
  std::size_t count;  ///< of heads of queries
  std::size_t width, keys;
  double scale, soft_cap;  ///< of scores; a soft cap of 0: none
  const void* q;           ///< [count, width]
  const void *k, *v;       ///< [keys, width]
  void* out;               ///< [count, width]
  void* scratch;           ///< cached_queries_scratch() elements of fp32 (fp64)
};

void attend_cached(const CachedQueries& task);
std::size_t cached_queries_scratch(std::size_t count, std::size_t width, std::size_t keys);

}  // namespace accrue::kernels::rows
