#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention/attention_bf16_rows_simd.h"
#include "kernels/mask-inl.h"
#include "kernels/power-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

using Floats = Lanes<float>;
using Vector = hn::Vec<Floats>;

constexpr float log2_e = 1.44269504F, ln_2 = 0.693147181F;

/// A vector of columns that all rows see.
struct AllSeen {
  HWY_INLINE Vector select(std::size_t, Vector seen, Vector) const { return seen; }
};

/// The lanes of a vector of columns, from `column` on, that are before the column `end`.
HWY_INLINE hn::Mask<hn::RebindToSigned<Floats>> lanes_before(std::size_t column, std::size_t end) {
  const hn::RebindToSigned<Floats> index;
  const auto rest = static_cast<std::int32_t>(end) - static_cast<std::int32_t>(column);
  return hn::Lt(hn::Iota(index, 0), hn::Set(index, rest));
}

/// A vector of columns, from `column` on, that some row sees partly, after the beginning of each
/// row's window.
struct SomeSeen {
  const QueryBlock& block;
  std::size_t column;

  HWY_INLINE Vector select(std::size_t row, Vector seen, Vector unseen) const {
    const Floats d;
    const auto mask = lanes_before(column, block.seen_end(row));
    return hn::IfThenElse(hn::RebindMask(d, mask), seen, unseen);
  }
};

/// A vector of columns, from `column` on, in which the window of some row begins.
struct WindowBegins {
  const QueryBlock& block;
  std::size_t column;

  HWY_INLINE Vector select(std::size_t row, Vector seen, Vector unseen) const {
    const Floats d;
    const auto mask = hn::AndNot(lanes_before(column, block.first_seen(row)),
                                 lanes_before(column, block.seen_end(row)));
    return hn::IfThenElse(hn::RebindMask(d, mask), seen, unseen);
  }
};

/// A vector of columns that no row sees.
struct NoneSeen {
  HWY_INLINE Vector select(std::size_t, Vector, Vector unseen) const { return unseen; }
};

/// Calls body(column, seen) for all vectors of the block's columns, for the rows [row, row + rows):
/// before a window, at its edge, within, at the diagonal and beyond. Adjacent rows have the same
/// numbers of each kind, so that the processor predicts the ends of the loops.
template <bool kWindow, class Body>
HWY_INLINE void for_each_column(const QueryBlock& block, std::size_t row, std::size_t rows,
                                Body body) {
  const std::size_t lanes = hn::Lanes(Floats());
  const std::size_t whole = block.causal ? block.first + row : block.length;
  const std::size_t seen = block.causal ? whole + rows : block.length;
  std::size_t column = 0;
  if constexpr (kWindow) {
    const std::size_t first = block.first_seen(row), last = block.first_seen(row + rows - 1);
    column = block.begin;
    for (; column + lanes <= first; column += lanes) body(column, NoneSeen());
    for (; column < last; column += lanes) body(column, WindowBegins{block, column});
  }
  for (; column + lanes <= whole; column += lanes) body(column, AllSeen());
  for (; column < seen; column += lanes) body(column, SomeSeen{block, column});
  for (; column < block.keys; column += lanes) body(column, NoneSeen());
}

/// Keeps every probability.
struct NoDropout {
  NoDropout(const QueryBlock&, std::size_t) {}
  HWY_INLINE Vector operator()(std::size_t, Vector v) const { return v; }
};

/// Keeps the probabilities that a row's mask keeps, times its scale. It can hold two adjacent
/// rows.
class Dropout {
 public:
  Dropout(const QueryBlock& block, std::size_t row)
      : mask_(*block.mask), words_(block.words + row % 2 * block.words_stride) {
    draw_row(mask_, block.first + row, block.begin, block.keys, words_);
  }
  HWY_INLINE Vector operator()(std::size_t column, Vector v) const {
    const Floats d;
    const auto scaled = hn::Mul(v, hn::Set(d, static_cast<float>(mask_.scale)));
    return hn::IfThenElseZero(kept(d, words_ + column, mask_.last_dropped), scaled);
  }

 private:
  const DropoutMask& mask_;
  std::uint32_t* words_;
};

/// 2^v, 0 from -127 on.
HWY_INLINE Vector probability(Vector v) {
  const Floats d;
  const auto least = hn::Set(d, -127.0F);
  // Max is not used here because it may lose a NaN.
  return power_of_two(d, hn::IfThenElse(hn::Lt(v, least), least, v), power_for_bf16);
}

template <bool kWindow>
HWY_INLINE float largest_seen(const QueryBlock& block, std::size_t r, const float* row) {
  const Floats d;
  const auto first = hn::Set(d, row[kWindow ? block.first_seen(r) : 0]);
  auto best = first;
  for_each_column<kWindow>(block, r, 1, [&](std::size_t i, auto seen) HWY_ATTR {
    best = hn::Max(best, seen.select(r, load(d, row + i), first));
  });
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

/// p = 2^(factor * row - top) with dropout. Returns the sum before dropout.
template <class Kept, bool kWindow>
HWY_INLINE float exponentiate_row(const QueryBlock& block, std::size_t r, const float* row,
                                  float factor, float top, Bf16* p) {
  const Floats d;
  const Kept kept(block, r);
  const auto scale = hn::Set(d, factor), shift = hn::Set(d, top);
  auto sum = hn::Zero(d);
  for_each_column<kWindow>(block, r, 1, [&](std::size_t i, auto seen) HWY_ATTR {
    const auto power = probability(hn::MulSub(load(d, row + i), scale, shift));
    const auto e = seen.select(r, power, hn::Zero(d));
    sum = hn::Add(sum, e);
    store_upper_halves(d, nearest_bf16_bits(d, kept(i, e)), &p[i].bits);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// to[i] = the logarithm of 2^tops[i] * sums[i].
void log_sums_of(const float* sums, const float* tops, std::size_t rows, float* to) {
  const Floats d;
  for_each_vector(d, rows, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto sum = load(d, sums + i, count);
    // Highway's log treats NaN as a number.
    const auto log = hn::IfThenElse(hn::IsNaN(sum), sum, hn::Log(d, sum));
    store(hn::MulAdd(load(d, tops + i, count), hn::Set(d, ln_2), log), d, to + i, count);
  });
}

template <class Kept, bool kWindow>
void softmax_rows(const QueryBlock& block, const float* scores, Bf16* p, float* sums,
                  float* log_sums) {
  const float factor = block.scale * log2_e;
  float* tops = log_sums;
  for (std::size_t r = 0; r < block.rows; ++r) {
    const float* row = scores + r * block.stride;
    tops[r] = factor * largest_seen<kWindow>(block, r, row);
    sums[r] = exponentiate_row<Kept, kWindow>(block, r, row, factor, tops[r], p + r * block.stride);
  }
  log_sums_of(sums, tops, block.rows, log_sums);
  for (std::size_t r = block.rows; r < block.block_rows; ++r)
    std::fill(p + r * block.stride + block.begin, p + r * block.stride + block.keys, Bf16{0});
}

template <bool kWindow>
void softmax_block_of(const QueryBlock& block, const float* scores, Bf16* p, float* sums,
                      float* log_sums) {
  if (block.mask == nullptr)
    return softmax_rows<NoDropout, kWindow>(block, scores, p, sums, log_sums);
  softmax_rows<Dropout, kWindow>(block, scores, p, sums, log_sums);
}

void softmax_block(const QueryBlock& block, const float* scores, Bf16* p, float* sums,
                   float* log_sums) {
  if (block.window == 0) return softmax_block_of<false>(block, scores, p, sums, log_sums);
  softmax_block_of<true>(block, scores, p, sums, log_sums);
}

/// Computes probabilities from scores; drops grads where these are dropped. Returns sum(p * grads).
template <bool kWindow, class Kept>
HWY_INLINE float weigh_row(const QueryBlock& block, std::size_t r, const Kept& kept, float log_sum,
                           float* scores, float* grads) {
  const Floats d;
  const auto scale = hn::Set(d, block.scale * log2_e), shift = hn::Set(d, log_sum * log2_e);
  auto sum = hn::Zero(d);
  for_each_column<kWindow>(block, r, 1, [&](std::size_t i, auto seen) HWY_ATTR {
    const auto power = probability(hn::MulSub(load(d, scores + i), scale, shift));
    const auto p = seen.select(r, power, hn::Zero(d));
    const auto g = seen.select(r, kept(i, load(d, grads + i)), hn::Zero(d));
    store(p, d, scores + i);
    store(g, d, grads + i);
    sum = hn::MulAdd(p, g, sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// The rows r and r + 1 of a block.
struct RowPair {
  std::size_t r;
  float *scores, *next_scores, *grads, *next_grads;
  float log_sum, next_log_sum;
};

struct BackwardOutput {
  Bf16 *p_pairs, *grad_rows, *next_grad_rows, *grad_pairs;
};

template <class Kept, bool kWindow>
void softmax_backward_pair(const QueryBlock& block, const RowPair& rows, const BackwardOutput& to) {
  const Floats d;
  const Lanes<std::uint32_t> word;
  const std::size_t r = rows.r, next = r + 1;
  const Kept kept(block, r), kept_next(block, next);
  const auto weighted =
      hn::Set(d, weigh_row<kWindow>(block, r, kept, rows.log_sum, rows.scores, rows.grads));
  const auto weighted_next =
      hn::Set(d, weigh_row<kWindow>(block, next, kept_next, rows.next_log_sum, rows.next_scores,
                                    rows.next_grads));
  for_each_column<kWindow>(block, r, 2, [&](std::size_t i, auto seen) HWY_ATTR {
    const auto p = load(d, rows.scores + i), p_next = load(d, rows.next_scores + i);
    const auto centred = hn::Sub(load(d, rows.grads + i), weighted);
    const auto centred_next = hn::Sub(load(d, rows.next_grads + i), weighted_next);
    const auto grad = nearest_bf16_bits(d, seen.select(r, hn::Mul(p, centred), hn::Zero(d)));
    const auto grad_next =
        nearest_bf16_bits(d, seen.select(next, hn::Mul(p_next, centred_next), hn::Zero(d)));
    store_pairs(word, nearest_bf16_bits(d, kept(i, p)), nearest_bf16_bits(d, kept_next(i, p_next)),
                to.p_pairs + 2 * i);
    store_pairs(word, grad, grad_next, to.grad_pairs + 2 * i);
    store_upper_halves(d, grad, &to.grad_rows[i].bits);
    store_upper_halves(d, grad_next, &to.next_grad_rows[i].bits);
  });
}

template <class Kept, bool kWindow>
void softmax_backward_rows(const QueryBlock& block, float* scores, float* grads,
                           const float* log_sums, const BackwardOutput& to) {
  const std::size_t padding = (block.block_rows - block.rows) * block.stride;
  std::fill_n(scores + block.rows * block.stride, padding, 0.0F);
  std::fill_n(grads + block.rows * block.stride, padding, 0.0F);
  // A query of padding has probabilities of zero.
  const auto log_sum = [&](std::size_t r) {
    return r < block.rows ? log_sums[r] : std::numeric_limits<float>::infinity();
  };
  for (std::size_t r = 0; r < block.block_rows; r += 2) {
    const std::size_t offset = r * block.stride, next = offset + block.stride;
    softmax_backward_pair<Kept, kWindow>(block,
                                         {.r = r,
                                          .scores = scores + offset,
                                          .next_scores = scores + next,
                                          .grads = grads + offset,
                                          .next_grads = grads + next,
                                          .log_sum = log_sum(r),
                                          .next_log_sum = log_sum(r + 1)},
                                         {.p_pairs = to.p_pairs + offset,
                                          .grad_rows = to.grad_rows + offset,
                                          .next_grad_rows = to.grad_rows + next,
                                          .grad_pairs = to.grad_pairs + offset});
  }
}

template <bool kWindow>
void softmax_backward_block_of(const QueryBlock& block, float* scores, float* grads,
                               const float* log_sums, const BackwardOutput& to) {
  if (block.mask == nullptr)
    return softmax_backward_rows<NoDropout, kWindow>(block, scores, grads, log_sums, to);
  softmax_backward_rows<Dropout, kWindow>(block, scores, grads, log_sums, to);
}

void softmax_backward_block(const QueryBlock& block, float* scores, float* grads,
                            const float* log_sums, Bf16* p_pairs, Bf16* grad_rows,
                            Bf16* grad_pairs) {
  const BackwardOutput to{.p_pairs = p_pairs,
                          .grad_rows = grad_rows,
                          .next_grad_rows = nullptr,
                          .grad_pairs = grad_pairs};
  if (block.window == 0)
    return softmax_backward_block_of<false>(block, scores, grads, log_sums, to);
  softmax_backward_block_of<true>(block, scores, grads, log_sums, to);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(softmax_block);
HWY_EXPORT(softmax_backward_block);

void softmax_block(const QueryBlock& block, const float* scores, Bf16* p, float* sums,
                   float* log_sums) {
  HWY_DYNAMIC_DISPATCH(softmax_block)(block, scores, p, sums, log_sums);
}

void softmax_backward_block(const QueryBlock& block, float* scores, float* grads,
                            const float* log_sums, Bf16* p_pairs, Bf16* grad_rows,
                            Bf16* grad_pairs) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_block)
  (block, scores, grads, log_sums, p_pairs, grad_rows, grad_pairs);
}

}  // namespace accrue::kernels::rows
#endif
