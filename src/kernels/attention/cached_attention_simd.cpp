#include "kernels/attention/cached_attention_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/attention/softmax-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

/// Rows of scratch are read by whole vectors, of at most this many elements.
constexpr std::size_t most_lanes = 16;

constexpr std::size_t padded(std::size_t size) {
  return (size + most_lanes - 1) / most_lanes * most_lanes;
}

/// `queries` [kRows, padded width], scaled, to the scores of all keys, in rows `stride` apart.
template <std::size_t kRows, class T, class Stored>
HWY_INLINE void score(const T* queries, const Stored* keys, const CachedQueries& task, T* scores,
                      std::size_t stride) {
  const Lanes<T> d;
  const std::size_t width = task.width, query_stride = padded(width);
  for (std::size_t key = 0; key < task.keys; ++key) {
    hn::Vec<Lanes<T>> sums[kRows];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) sums[r] = hn::Zero(d);
    for_each_vector(d, width, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const auto of_key = load(d, keys + key * width + i, count);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r)
        sums[r] = hn::MulAdd(load(d, queries + r * query_stride + i), of_key, sums[r]);
    });
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r)
      scores[r * stride + key] = hn::GetLane(hn::SumOfLanes(d, sums[r]));
  }
}

/// Columns of out = probabilities · values / sums, of kRows heads: kVectors vectors from `column`
/// on, of which the last one ends after `count` elements.
template <std::size_t kRows, std::size_t kVectors, class T, class Stored>
HWY_INLINE void mix_columns(const T* probabilities, std::size_t stride, const T* sums,
                            const Stored* values, const CachedQueries& task, std::size_t column,
                            std::size_t count, Stored* out) {
  const Lanes<T> d;
  const std::size_t width = task.width, lanes = hn::Lanes(d);
  const auto size = [=](std::size_t v) { return v + 1 < kVectors ? lanes : count; };
  hn::Vec<Lanes<T>> mixed[kRows][kVectors];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) mixed[r][v] = hn::Zero(d);
  for (std::size_t key = 0; key < task.keys; ++key) {
    hn::Vec<Lanes<T>> value[kVectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v)
      value[v] = load(d, values + key * width + column + v * lanes, size(v));
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto share = hn::Set(d, probabilities[r * stride + key]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v)
        mixed[r][v] = hn::MulAdd(share, value[v], mixed[r][v]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r) {
    const auto inverse = hn::Set(d, T(1) / sums[r]);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v)
      store(hn::Mul(mixed[r][v], inverse), d, out + r * width + column + v * lanes, size(v));
  }
}

/// out = probabilities · values / sums, of kRows heads. Sums of several vectors at once hide the
/// latency of additions.
template <std::size_t kRows, class T, class Stored>
HWY_INLINE void mix(const T* probabilities, std::size_t stride, const T* sums, const Stored* values,
                    const CachedQueries& task, Stored* out) {
  constexpr std::size_t vectors = kRows == 1 ? 4 : 2;
  const std::size_t lanes = hn::Lanes(Lanes<T>());
  std::size_t column = 0;
  for (; column + vectors * lanes <= task.width; column += vectors * lanes)
    mix_columns<kRows, vectors>(probabilities, stride, sums, values, task, column, lanes, out);
  for (; column < task.width; column += lanes)
    mix_columns<kRows, 1>(probabilities, stride, sums, values, task, column,
                          std::min(lanes, task.width - column), out);
}

/// kRows heads from `head` on, with `scores` [kRows, stride] as scratch.
template <std::size_t kRows, class T, class Stored>
void attend_heads(const T* queries, const CachedQueries& task, std::size_t head, T* scores) {
  const std::size_t stride = padded(task.keys);
  score<kRows>(queries + head * padded(task.width), static_cast<const Stored*>(task.k), task,
               scores, stride);
  const RowCap<T> cap(task.soft_cap, nullptr);
  T sums[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    T* const row = scores + r * stride;
    cap.apply(row, {0, task.keys});
    T log_sum;
    sums[r] = exponentiate_row(row, task.keys, task.keys, log_sum);
  }
  mix<kRows>(scores, stride, sums, static_cast<const Stored*>(task.v), task,
             static_cast<Stored*>(task.out) + head * task.width);
}

constexpr std::size_t heads_together = 4;

template <class T, class Stored>
void attend_cached_of(const CachedQueries& task) {
  const Lanes<T> d;
  const std::size_t query_stride = padded(task.width);
  T* const queries = static_cast<T*>(task.scratch);
  T* const scores = queries + task.count * query_stride;
  const auto scale = hn::Set(d, static_cast<T>(task.scale));
  for (std::size_t head = 0; head < task.count; ++head) {
    const Stored* from = static_cast<const Stored*>(task.q) + head * task.width;
    T* const to = queries + head * query_stride;
    for_each_vector(d, task.width, [&](std::size_t i, std::size_t count) HWY_ATTR {
      hn::StoreU(hn::Mul(scale, load(d, from + i, count)), d, to + i);
    });
  }
  std::size_t head = 0;
  for (; head + heads_together <= task.count; head += heads_together)
    attend_heads<heads_together, T, Stored>(queries, task, head, scores);
  for (; head < task.count; ++head) attend_heads<1, T, Stored>(queries, task, head, scores);
}

void attend_cached(const CachedQueries& task) {
  if (task.type == Element::fp32) return attend_cached_of<float, float>(task);
  if (task.type == Element::bf16) return attend_cached_of<float, Bf16>(task);
  attend_cached_of<double, double>(task);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(attend_cached);

void attend_cached(const CachedQueries& task) { HWY_DYNAMIC_DISPATCH(attend_cached)(task); }

std::size_t cached_queries_scratch(std::size_t count, std::size_t width, std::size_t keys) {
  constexpr std::size_t lanes = 16, heads = 4;
  const auto padded = [](std::size_t size) { return (size + lanes - 1) / lanes * lanes; };
  return count * padded(width) + heads * padded(keys);
}

}  // namespace accrue::kernels::rows
#endif
