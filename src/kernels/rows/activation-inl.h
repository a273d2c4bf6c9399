// Activations of the feed-forward kernels; compiled once per instruction set.
#if defined(ACCRUE_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_ACTIVATION_INL_H_
#undef ACCRUE_KERNELS_ACTIVATION_INL_H_
#else
#define ACCRUE_KERNELS_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/power-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// Whether there is `power_of_two` for T, so that exponents of a sigmoid are to base 2.
template <class T>
constexpr bool has_power_of_two = sizeof(T) == sizeof(float);
template <class T>
constexpr double exponent_unit = has_power_of_two<T> ? 1.4426950408889634 : 1;

/// e^(exponent / exponent_unit).
template <class D>
HWY_INLINE hn::Vec<D> power_of_unit(D d, hn::Vec<D> exponent) {
  if constexpr (has_power_of_two<hn::TFromD<D>>) {
    return power_of_two(d, exponent, power_for_fp32);
  } else {
    return hn::Exp(d, exponent);
  }
}

constexpr double gelu_cubic = 0.044715;
constexpr double gelu_slope = 1.5957691216057308;  // 2 * sqrt(2 / pi)

/// Below and above these values the sigmoid is 0 and 1 to the precision of T. Squares of larger x
/// could overflow, and they are the limits of `power_of_two` in fp32.
template <class T>
constexpr T gelu_lowest = sizeof(T) == sizeof(double) ? T(-20) : T(-10.06);
template <class T>
constexpr T gelu_highest = sizeof(T) == sizeof(double) ? T(20) : T(10);

/// gelu_tanh(x) = x * sigmoid(z), z = 2 sqrt(2/pi) (x + 0.044715 x^3): nothing cancels, and one exp
/// is enough.
template <class D>
struct Gelu {
  using T = hn::TFromD<D>;
  hn::Vec<D> clamped, square, sigmoid;

  HWY_INLINE Gelu(D d, hn::Vec<D> x) {
    constexpr double unit = exponent_unit<T>;
    clamped = hn::Min(hn::Max(x, hn::Set(d, gelu_lowest<T>)), hn::Set(d, gelu_highest<T>));
    square = hn::Mul(clamped, clamped);
    const auto polynomial = hn::MulAdd(square, hn::Set(d, T(-gelu_slope * gelu_cubic * unit)),
                                       hn::Set(d, T(-gelu_slope * unit)));
    const auto one = hn::Set(d, T(1));
    sigmoid = hn::Div(one, hn::Add(one, power_of_unit(d, hn::Mul(clamped, polynomial))));
  }

  HWY_INLINE hn::Vec<D> value(D, hn::Vec<D> x) const { return hn::Mul(x, sigmoid); }

  /// The clamp hides a NaN, which appears again when x is added.
  HWY_INLINE hn::Vec<D> derivative(D d, hn::Vec<D> x) const {
    const auto slope =
        hn::MulAdd(square, hn::Set(d, T(3 * gelu_slope * gelu_cubic)), hn::Set(d, T(gelu_slope)));
    const auto bell = hn::Mul(sigmoid, hn::Sub(hn::Set(d, T(1)), sigmoid));
    const auto finite = hn::MulAdd(hn::Mul(clamped, bell), slope, sigmoid);
    return hn::Add(finite, hn::IfThenElseZero(hn::IsNaN(x), x));
  }
};

/// silu(x) = x * sigmoid(x).
template <class D>
struct Silu {
  using T = hn::TFromD<D>;
  hn::Vec<D> sigmoid;

  /// Exponents beyond the range of T are clamped to its ends, where the sigmoid is 0 and 1.
  HWY_INLINE Silu(D d, hn::Vec<D> x) {
    constexpr T lowest = has_power_of_two<T> ? T(-127) : T(-745);
    constexpr T highest = has_power_of_two<T> ? T(128) : T(709);
    const auto exponent = hn::Mul(x, hn::Set(d, T(-exponent_unit<T>)));
    const auto clamped = hn::Min(hn::Max(exponent, hn::Set(d, lowest)), hn::Set(d, highest));
    const auto one = hn::Set(d, T(1));
    sigmoid = hn::Div(one, hn::Add(one, power_of_unit(d, clamped)));
  }

  HWY_INLINE hn::Vec<D> value(D, hn::Vec<D> x) const { return hn::Mul(x, sigmoid); }

  HWY_INLINE hn::Vec<D> derivative(D d, hn::Vec<D> x) const {
    const auto one = hn::Set(d, T(1));
    return hn::Mul(sigmoid, hn::MulAdd(x, hn::Sub(one, sigmoid), one));
  }
};

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
