// Loads, stores and reductions shared by the vectorised kernels; compiled once per instruction set.
#if defined(ACCRUE_KERNELS_VECTOR_IO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_VECTOR_IO_INL_H_
#undef ACCRUE_KERNELS_VECTOR_IO_INL_H_
#else
#define ACCRUE_KERNELS_VECTOR_IO_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/element.h"
#include "support/bf16_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using accrue::HWY_NAMESPACE::load_bf16;
using accrue::HWY_NAMESPACE::nearest_bf16_bits;
using accrue::HWY_NAMESPACE::store_bf16;
using accrue::HWY_NAMESPACE::store_upper_halves;
using accrue::HWY_NAMESPACE::upper_halves;

/// Whole vectors of the precision that an operation works in: float, or double for fp64.
template <class T>
using Lanes = hn::ScalableTag<T>;

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Bf16* from) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
    return hn::PromoteTo(d, load(hn::Rebind<float, D>(), from));
  } else {
    return load_bf16(d, &from->bits);
  }
}

template <class D>
HWY_INLINE void store(hn::Vec<D> v, D d, hn::TFromD<D>* to) {
  hn::StoreU(v, d, to);
}

/// to[2 i] = low[i], to[2 i + 1] = high[i], of `nearest_bf16_bits`.
template <class D>
HWY_INLINE void store_pairs(D d, hn::Vec<D> low, hn::Vec<D> high, Bf16* to) {
  const auto upper = hn::And(high, hn::Set(d, 0xffff0000u));
  hn::StoreU(hn::Or(hn::ShiftRight<16>(low), upper), d, reinterpret_cast<std::uint32_t*>(to));
}

template <class D>
HWY_INLINE void store(hn::Vec<D> v, D d, Bf16* to) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
    const hn::Rebind<float, D> single;
    store(hn::DemoteTo(single, v), single, to);
  } else {
    store_bf16(v, d, &to->bits);
  }
}

/// Whether `count` elements fill a vector: always true if it has one lane.
template <class D>
HWY_INLINE bool is_whole(D d, std::size_t count) {
  return hn::MaxLanes(D()) == 1 || count == hn::Lanes(d);
}

/// Loads the first `count` elements, followed by zeros; does not read beyond them.
template <class D, class T>
HWY_INLINE hn::Vec<D> load(D d, const T* from, std::size_t count) {
  if (HWY_LIKELY(is_whole(d, count))) return load(d, from);
  T lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return load(d, lanes);
}

template <class D, class T>
HWY_INLINE void store(hn::Vec<D> v, D d, T* to, std::size_t count) {
  if (HWY_LIKELY(is_whole(d, count))) return store(v, d, to);
  T lanes[hn::MaxLanes(D())];
  store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

/// `v` with zeros from lane `count` on.
template <class D>
HWY_INLINE hn::Vec<D> first(D d, hn::Vec<D> v, std::size_t count) {
  if (HWY_LIKELY(is_whole(d, count))) return v;
  return hn::IfThenElseZero(hn::FirstN(d, count), v);
}

/// e^x; Highway's treats NaN as a number below its range, but a NaN must stay visible.
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

/// Calls body(offset, count) for [0, size) in steps of one vector, the last one possibly short.
template <class D, class Body>
HWY_INLINE void for_each_vector(D d, std::size_t size, Body body) {
  const std::size_t lanes = hn::Lanes(d);
  std::size_t offset = 0;
  for (; offset + lanes <= size; offset += lanes) body(offset, lanes);
  if (offset < size) body(offset, size - offset);
}

/// Two vectors of consecutive elements in memory, in an order of lanes that `store_both` knows: for
/// bf16, the even and the odd ones, which takes no shuffling.
template <class D>
struct Both {
  hn::Vec<D> first, second;
};

template <class D>
HWY_INLINE Both<D> load_both(D d, const hn::TFromD<D>* from) {
  return {load(d, from), load(d, from + hn::Lanes(d))};
}

template <class D>
HWY_INLINE Both<D> load_both(D d, const Bf16* from) {
  const hn::Rebind<std::uint32_t, D> word;
  const auto words = hn::LoadU(word, reinterpret_cast<const std::uint32_t*>(from));
  return {hn::BitCast(d, hn::ShiftLeft<16>(words)), upper_halves(d, words)};
}

template <class D>
HWY_INLINE void store_both(const Both<D>& v, D d, hn::TFromD<D>* to) {
  store(v.first, d, to);
  store(v.second, d, to + hn::Lanes(d));
}

/// Converts NaNs to the form that `nearest_bf16_bits` requires.
template <class D>
HWY_INLINE void store_both(const Both<D>& v, D d, Bf16* to) {
  const hn::Rebind<std::uint32_t, D> word;
  store_pairs(word, nearest_bf16_bits(d, v.first), nearest_bf16_bits(d, v.second), to);
}

/// The sum of term(offset, count) over [0, size); lanes from `count` on must be zero. Four
/// accumulators hide the latency of the additions.
template <class D, class Term>
HWY_INLINE hn::TFromD<D> sum_of(D d, std::size_t size, Term term) {
  const std::size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  std::size_t offset = 0;
  for (; offset + 4 * lanes <= size; offset += 4 * lanes) {
    sum0 = hn::Add(sum0, term(offset, lanes));
    sum1 = hn::Add(sum1, term(offset + lanes, lanes));
    sum2 = hn::Add(sum2, term(offset + 2 * lanes, lanes));
    sum3 = hn::Add(sum3, term(offset + 3 * lanes, lanes));
  }
  for (; offset + lanes <= size; offset += lanes) sum0 = hn::Add(sum0, term(offset, lanes));
  if (offset < size) sum1 = hn::Add(sum1, term(offset, size - offset));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

/// The largest of row[0, size), size >= 1.
template <class D>
HWY_INLINE hn::TFromD<D> largest(D d, const hn::TFromD<D>* row, std::size_t size) {
  const auto none = hn::Set(d, row[0]);
  auto best0 = none, best1 = none;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t offset = 0;
  for (; offset + 2 * lanes <= size; offset += 2 * lanes) {
    best0 = hn::Max(best0, load(d, row + offset));
    best1 = hn::Max(best1, load(d, row + offset + lanes));
  }
  for_each_vector(d, size - offset, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto values = load(d, row + offset + i, count);
    best0 = hn::Max(best0, hn::IfThenElse(hn::FirstN(d, count), values, none));
  });
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(best0, best1)));
}

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
