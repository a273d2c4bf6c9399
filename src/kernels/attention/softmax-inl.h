// Rows of attention's softmax, forward and backward; compiled once per instruction set.
#if defined(ACCRUE_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_SOFTMAX_INL_H_
#undef ACCRUE_KERNELS_SOFTMAX_INL_H_
#else
#define ACCRUE_KERNELS_SOFTMAX_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/mask-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// The dropout of probabilities, a row at a time; does nothing without a mask.
template <class T>
class RowMask {
 public:
  /// `words` is room for a row, in whole blocks of the mask.
  RowMask(const DropoutMask* mask, std::uint32_t* words) : mask_(mask), words_(words) {}

  void draw(std::size_t query, std::size_t keys) const {
    if (mask_ != nullptr) draw_row(*mask_, query, keys, words_);
  }
  /// Multiplies row[0, keys) by the mask that was drawn last, and its scale.
  void apply(T* row, std::size_t keys) const {
    if (mask_ == nullptr) return;
    const Lanes<T> d;
    const auto scale = hn::Set(d, static_cast<T>(mask_->scale));
    for_each_vector(d, keys, [&](std::size_t i, std::size_t) HWY_ATTR {
      const auto scaled = hn::Mul(load(d, row + i), scale);
      hn::StoreU(hn::IfThenElseZero(kept(d, words_ + i, mask_->last_dropped), scaled), d, row + i);
    });
  }

 private:
  const DropoutMask* mask_;
  std::uint32_t* words_;
};

/// row[0, valid) = e^(row - its largest); zeros up to `padded`. Returns the sum, and the log of the
/// sum of e^row.
template <class T>
T exponentiate_row(T* row, std::size_t valid, std::size_t padded, T& log_sum) {
  const Lanes<T> d;
  const T top = largest(d, row, valid);
  const auto shift = hn::Set(d, top);
  const T sum = sum_of(d, valid, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto e = first(d, exponential(d, hn::Sub(load(d, row + i), shift)), count);
    hn::StoreU(e, d, row + i);
    return e;
  });
  if (valid < padded) std::fill(row + valid, row + padded, T(0));
  log_sum = top + std::log(sum);
  return sum;
}

/// From scores and grads = dO·Vᵀ of one query: scores become probabilities p, and grads become
/// p * (grads - sum(p * grads)), the gradient of the scores. Zeros up to `padded`.
template <class T>
void softmax_backward_row(T* scores, T* grads, std::size_t valid, std::size_t padded, T log_sum) {
  const Lanes<T> d;
  const auto shift = hn::Set(d, log_sum);
  const T weighted = sum_of(d, valid, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto p = first(d, exponential(d, hn::Sub(load(d, scores + i), shift)), count);
    hn::StoreU(p, d, scores + i);
    return hn::Mul(p, first(d, load(d, grads + i), count));
  });
  for_each_vector(d, valid, [&](std::size_t i, std::size_t) HWY_ATTR {
    const auto centred = hn::Sub(load(d, grads + i), hn::Set(d, weighted));
    hn::StoreU(hn::Mul(load(d, scores + i), centred), d, grads + i);
  });
  if (valid < padded) {
    std::fill(scores + valid, scores + padded, T(0));
    std::fill(grads + valid, grads + padded, T(0));
  }
}

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
