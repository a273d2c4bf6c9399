// Powers of two, for exponentials that need not be exact to the last bit or for every argument;
// compiled once per instruction set.
#if defined(ACCRUE_KERNELS_POWER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_POWER_INL_H_
#undef ACCRUE_KERNELS_POWER_INL_H_
#else
#define ACCRUE_KERNELS_POWER_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cstddef>

#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// The coefficients of polynomials r -> 2^r on [-1/2, 1/2], 1 at 0, from the highest power down to
/// the first. Minimax of the relative error, which is 2.9e-6 and 8e-8 with fp32's rounding.
constexpr std::array<float, 4> power_for_bf16 = {0.009582853F, 0.055906426F, 0.24024099F,
                                                 0.69312418F};
constexpr std::array<float, 6> power_for_fp32 = {0.00015353362F, 0.0013398875F, 0.0096184369F,
                                                 0.055503324F,   0.24022648F,   0.69314718F};

/// 2^x for x from -127 to 128, where it is 0 and infinite, or NaN; other results below the least
/// normal number are also 0.
template <class D, std::size_t kDegree>
HWY_INLINE hn::Vec<D> power_of_two(D d, hn::Vec<D> x, const std::array<float, kDegree>& powers) {
  // Adding it leaves x rounded to an integer and biased like an exponent in the lowest bits.
  const auto shifter = hn::Set(d, 12582912.0F + 127.0F);
  const auto shifted = hn::Add(x, shifter);
  const auto rest = hn::Sub(x, hn::Sub(shifted, shifter));
  auto result = hn::Set(d, powers[0]);
  for (std::size_t i = 1; i < kDegree; ++i)
    result = hn::MulAdd(result, rest, hn::Set(d, powers[i]));
  result = hn::MulAdd(result, rest, hn::Set(d, 1.0F));
  const hn::RebindToUnsigned<D> bits;
  return hn::Mul(result, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted))));
}

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
