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
#include "kernels/soft_cap-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// Adjacent keys.
struct KeyRange {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

/// The cap of scores, a row at a time; does nothing if it is 0.
template <class T>
class RowCap {
 public:
  /// `slopes` is memory for a row; null if they are not needed.
  RowCap(double cap, T* slopes) : cap_(cap), slopes_(slopes) {}

  void apply(T* row, KeyRange keys) const {
    if (cap_ == 0) return;
    const Lanes<T> d;
    const SoftCap<Lanes<T>> cap(d, cap_);
    T* const seen = row + keys.begin;
    for_each_vector(d, keys.size(), [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(cap.apply(d, load(d, seen + i, count)), d, seen + i, count);
    });
  }
  /// Caps, and keeps the derivatives for multiply_by_slopes().
  void apply_with_slopes(T* row, KeyRange keys) const {
    if (cap_ == 0) return;
    const Lanes<T> d;
    const SoftCap<Lanes<T>> cap(d, cap_);
    T* const seen = row + keys.begin;
    for_each_vector(d, keys.size(), [&](std::size_t i, std::size_t count) HWY_ATTR {
      const auto capped = cap.apply(d, load(d, seen + i, count));
      store(capped, d, seen + i, count);
      store(cap.slope(d, capped), d, slopes_ + i, count);
    });
  }
  void multiply_by_slopes(T* row, KeyRange keys) const {
    if (cap_ == 0) return;
    const Lanes<T> d;
    T* const seen = row + keys.begin;
    for_each_vector(d, keys.size(), [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(hn::Mul(load(d, seen + i, count), load(d, slopes_ + i, count)), d, seen + i, count);
    });
  }

 private:
  double cap_;
  T* slopes_;
};

/// The dropout of probabilities, a row at a time; does nothing without a mask.
template <class T>
class RowMask {
 public:
  /// `words` is memory for a row, in whole blocks of the mask.
  RowMask(const DropoutMask* mask, std::uint32_t* words) : mask_(mask), words_(words) {}

  void draw(std::size_t query, KeyRange keys) const {
    if (mask_ != nullptr) draw_row(*mask_, query, keys.begin, keys.end, words_);
  }
  /// Multiplies the row's elements of these keys by the mask that was drawn last, and its scale.
  void apply(T* row, KeyRange keys) const {
    if (mask_ == nullptr) return;
    const Lanes<T> d;
    const auto scale = hn::Set(d, static_cast<T>(mask_->scale));
    T* const seen = row + keys.begin;
    const std::uint32_t* const words = words_ + keys.begin;
    for_each_vector(d, keys.size(), [&](std::size_t i, std::size_t) HWY_ATTR {
      const auto scaled = hn::Mul(load(d, seen + i), scale);
      hn::StoreU(hn::IfThenElseZero(kept(d, words + i, mask_->last_dropped), scaled), d, seen + i);
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
