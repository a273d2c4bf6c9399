#pragma once

#include <cstdint>

namespace accrue::data {

/// The luma of ITU-R 601-2 in 16 bits of fraction, as in Pillow's convert("L").
inline std::uint8_t luma(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>((red * 19595U + green * 38470U + blue * 7471U + 0x8000U) >> 16);
}

}  // namespace accrue::data
