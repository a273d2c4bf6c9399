#pragma once

#include <array>
#include <cstddef>

namespace accrue::optim {

/// The values of 8-bit dynamic codes (Dettmers et al., "8-bit Optimizers via Block-wise
/// Quantization", arXiv:2110.02861, section 2.2): seven decades below 1, each divided into equal
/// intervals, twice as many as in the decade before; a code stands for the middle of its interval.
/// So large values are precise, and small ones still have a code. A block's values are scaled so
/// that its largest magnitude is `kLargest...`, which is then exact.
///
/// Signed: code 127 + c and 127 - c are +- magnitude c, with 1, 2, ... 64 intervals in the decades.
/// Unsigned: 2, 4, ... 128 intervals; code 0 is only for 0, and other small values have code 1, so
/// that a second moment never becomes zero by rounding.
inline constexpr std::size_t kStateBlock = 256;
inline constexpr int kDecades = 7;
inline constexpr std::size_t kSignedZero = 127;

/// The middles of the intervals, by magnitude, with `first` intervals in the first decade.
template <std::size_t size>
constexpr std::array<float, size> interval_middles(std::size_t first) {
  std::array<float, size> middles{};
  double decade = 1e-6;
  std::size_t code = 1;
  for (int d = 0; d < kDecades; ++d, decade *= 10) {
    const std::size_t intervals = first << d;
    for (std::size_t i = 0; i < intervals; ++i)
      middles[code++] = static_cast<float>(
          decade * (0.1 + 0.9 * (static_cast<double>(i) + 0.5) / static_cast<double>(intervals)));
  }
  return middles;
}

constexpr std::array<float, 256> signed_values() {
  constexpr auto middles = interval_middles<128>(1);
  std::array<float, 256> values{};
  for (std::size_t c = 1; c < 128; ++c) {
    values[kSignedZero + c] = middles[c];
    values[kSignedZero - c] = -middles[c];
  }
  return values;
}

inline constexpr std::array<float, 256> kSignedValues = signed_values();
inline constexpr std::array<float, 256> kUnsignedValues = interval_middles<256>(2);
inline constexpr float kLargestSigned = kSignedValues[254];
inline constexpr float kLargestUnsigned = kUnsignedValues[254];

}  // namespace accrue::optim
