#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "accum/fold_lanes-inl.h"
#include "accum/fold_passes.h"
#include "support/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::accum::HWY_NAMESPACE {

/// Applies `op`, which returns magnitudes, to all elements.
template <class T, class Op>
HWY_INLINE double sweep(const Op op, std::size_t count) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToSigned<decltype(one)> one_i;
  const std::size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(di);
  auto largest_of_rest = hn::Zero(one_i);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, op(d, i));
  for (; i < count; ++i) largest_of_rest = hn::Max(largest_of_rest, op(one, i));
  return magnitude<T>(
      std::max(hn::GetLane(hn::MaxOfLanes(di, largest)), hn::GetLane(largest_of_rest)));
}

// The folds.

template <bool kAdd>
struct Fp64Fold {
  const float* from;
  double* sum;
  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> operator()(D d, std::size_t i) const {
    const auto x = load(d, from + i);
    const auto kept = zero_unless_below(d, x, std::numeric_limits<double>::infinity());
    hn::StoreU(kAdd ? hn::Add(load(d, sum + i), kept) : kept, d, sum + i);
    return magnitude_bits(d, x);
  }
};

template <bool kAdd>
struct Bf16Fold {
  const float* from;
  std::uint16_t* sum;
  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> operator()(D d, std::size_t i) const {
    const auto x = load(d, from + i);
    const auto kept = zero_unless_below(d, x, std::numeric_limits<float>::infinity());
    const auto total = kAdd ? hn::Add(load_bf16(d, sum + i), kept) : kept;
    store_upper_halves(d, nearest_bf16_bits(d, total), sum + i);
    return magnitude_bits(d, x);
  }
};

template <bool kAdd>
struct KahanFold {
  const float* from;
  std::uint16_t* sum;
  std::uint16_t* compensation;
  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> operator()(D d, std::size_t i) const {
    const auto x = load(d, from + i);
    const auto kept = zero_unless_below(d, x, std::numeric_limits<float>::infinity());
    const auto old_sum = kAdd ? load_bf16(d, sum + i) : hn::Zero(d);
    const auto owed = kAdd ? hn::Sub(kept, load_bf16(d, compensation + i)) : kept;
    const auto new_bits = nearest_bf16_bits(d, hn::Add(old_sum, owed));
    const auto excess = hn::Sub(hn::Sub(upper_halves(d, new_bits), old_sum), owed);
    store_upper_halves(d, new_bits, sum + i);
    store_upper_halves(d, nearest_bf16_bits(d, excess), compensation + i);
    return magnitude_bits(d, x);
  }
};

template <class T, bool kAdd>
struct FixedFold {
  const T* from;
  std::int64_t* sum;
  FixedScale scale;
  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> di;
    const auto x = load(d, from + i);
    const auto kept = zero_unless_below(d, x, scale.limit);
    // A number below 2^51 that is added to 1.5 * 2^52 is rounded to an integer in the low bits.
    const auto shift = hn::Set(d, 0x1.8p52);
    const auto shifted = hn::MulAdd(kept, hn::Set(d, scale.per_unit), shift);
    const auto units = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, shift));
    hn::StoreU(kAdd ? hn::Add(hn::LoadU(di, sum + i), units) : units, di, sum + i);
    return magnitude_bits(d, x);
  }
};

/// Only reads the elements: no sum is written.
template <class T>
struct Look {
  const T* from;
  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> operator()(D d, std::size_t i) const {
    return magnitude_bits(d, load(d, from + i));
  }
};

// Reading.

struct Bf16Read {
  const std::uint16_t* sum;
  float* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    hn::StoreU(load_bf16(d, sum + i), d, to + i);
  }
};

struct KahanRead {
  const std::uint16_t* sum;
  const std::uint16_t* compensation;
  float* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    hn::StoreU(hn::Sub(load_bf16(d, sum + i), load_bf16(d, compensation + i)), d, to + i);
  }
};

template <class T>
struct FixedRead {
  const std::int64_t* sum;
  double unit;
  T* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> di;
    const auto value = hn::Mul(hn::ConvertTo(d, hn::LoadU(di, sum + i)), hn::Set(d, unit));
    if constexpr (sizeof(T) == sizeof(double)) {
      hn::StoreU(value, d, to + i);
    } else {
      const hn::Rebind<float, D> single;
      hn::StoreU(hn::DemoteTo(single, value), single, to + i);
    }
  }
};

double fp64(const float* from, double* sum, std::size_t count, bool add) {
  return add ? sweep<double>(Fp64Fold<true>{from, sum}, count)
             : sweep<double>(Fp64Fold<false>{from, sum}, count);
}
double bf16(const float* from, std::uint16_t* sum, std::size_t count, bool add) {
  return add ? sweep<float>(Bf16Fold<true>{from, sum}, count)
             : sweep<float>(Bf16Fold<false>{from, sum}, count);
}
double bf16_kahan(const float* from, std::uint16_t* sum, std::uint16_t* compensation,
                  std::size_t count, bool add) {
  return add ? sweep<float>(KahanFold<true>{from, sum, compensation}, count)
             : sweep<float>(KahanFold<false>{from, sum, compensation}, count);
}
double fixed_fp32(const float* from, std::int64_t* sum, std::size_t count, bool add,
                  const FixedScale& scale) {
  return add ? sweep<double>(FixedFold<float, true>{from, sum, scale}, count)
             : sweep<double>(FixedFold<float, false>{from, sum, scale}, count);
}
double fixed_fp64(const double* from, std::int64_t* sum, std::size_t count, bool add,
                  const FixedScale& scale) {
  return add ? sweep<double>(FixedFold<double, true>{from, sum, scale}, count)
             : sweep<double>(FixedFold<double, false>{from, sum, scale}, count);
}
double largest_fp32(const float* from, std::size_t count) {
  return sweep<float>(Look<float>{from}, count);
}
double largest_fp64(const double* from, std::size_t count) {
  return sweep<double>(Look<double>{from}, count);
}
void bf16_values(const std::uint16_t* sum, std::size_t count, float* to) {
  accrue::HWY_NAMESPACE::sweep<float>(count, Bf16Read{sum, to});
}
void kahan_values(const std::uint16_t* sum, const std::uint16_t* compensation, std::size_t count,
                  float* to) {
  accrue::HWY_NAMESPACE::sweep<float>(count, KahanRead{sum, compensation, to});
}
void fixed_values_fp32(const std::int64_t* sum, std::size_t count, double unit, float* to) {
  accrue::HWY_NAMESPACE::sweep<double>(count, FixedRead<float>{sum, unit, to});
}
void fixed_values_fp64(const std::int64_t* sum, std::size_t count, double unit, double* to) {
  accrue::HWY_NAMESPACE::sweep<double>(count, FixedRead<double>{sum, unit, to});
}
std::int64_t largest_units(const std::int64_t* sum, std::size_t count) {
  const hn::ScalableTag<std::int64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto vector = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) vector = hn::Max(vector, hn::Abs(hn::LoadU(d, sum + i)));
  std::int64_t largest = hn::GetLane(hn::MaxOfLanes(d, vector));
  for (; i < count; ++i) largest = std::max(largest, sum[i] < 0 ? -sum[i] : sum[i]);
  return largest;
}

}  // namespace accrue::accum::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::accum {

HWY_EXPORT(fp64);
HWY_EXPORT(bf16);
HWY_EXPORT(bf16_kahan);
HWY_EXPORT(fixed_fp32);
HWY_EXPORT(fixed_fp64);
HWY_EXPORT(largest_fp32);
HWY_EXPORT(largest_fp64);
HWY_EXPORT(bf16_values);
HWY_EXPORT(kahan_values);
HWY_EXPORT(fixed_values_fp32);
HWY_EXPORT(fixed_values_fp64);
HWY_EXPORT(largest_units);

double fold_fp64(const float* from, double* sum, std::size_t count, bool add) {
  return HWY_DYNAMIC_DISPATCH(fp64)(from, sum, count, add);
}
double fold_bf16(const float* from, std::uint16_t* sum, std::size_t count, bool add) {
  return HWY_DYNAMIC_DISPATCH(bf16)(from, sum, count, add);
}
double fold_bf16_kahan(const float* from, std::uint16_t* sum, std::uint16_t* compensation,
                       std::size_t count, bool add) {
  return HWY_DYNAMIC_DISPATCH(bf16_kahan)(from, sum, compensation, count, add);
}
double fold_fixed(const float* from, std::int64_t* sum, std::size_t count, bool add,
                  const FixedScale& scale) {
  return HWY_DYNAMIC_DISPATCH(fixed_fp32)(from, sum, count, add, scale);
}
double fold_fixed(const double* from, std::int64_t* sum, std::size_t count, bool add,
                  const FixedScale& scale) {
  return HWY_DYNAMIC_DISPATCH(fixed_fp64)(from, sum, count, add, scale);
}
double largest_of(const float* from, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_fp32)(from, count);
}
double largest_of(const double* from, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_fp64)(from, count);
}
void read_bf16(const std::uint16_t* sum, std::size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(bf16_values)(sum, count, to);
}
void read_bf16_kahan(const std::uint16_t* sum, const std::uint16_t* compensation, std::size_t count,
                     float* to) {
  HWY_DYNAMIC_DISPATCH(kahan_values)(sum, compensation, count, to);
}
void read_fixed(const std::int64_t* sum, std::size_t count, double unit, float* to) {
  HWY_DYNAMIC_DISPATCH(fixed_values_fp32)(sum, count, unit, to);
}
void read_fixed(const std::int64_t* sum, std::size_t count, double unit, double* to) {
  HWY_DYNAMIC_DISPATCH(fixed_values_fp64)(sum, count, unit, to);
}
std::int64_t largest_fixed(const std::int64_t* sum, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_units)(sum, count);
}

}  // namespace accrue::accum
#endif
