#pragma once

#include <cstdint>
#include <span>

#include "data/images/transform/image_change.h"

namespace accrue::data {

/// Changes the colours of an image of bytes in `channels` planes (1 or 3), with the bits of Pillow:
/// brightness, contrast and saturation as in its ImageEnhance, the hue by way of 8-bit HSV (Smith:
/// "Color gamut transform pairs", SIGGRAPH 1978).
void change_colours(const ColourChange& change, std::int64_t channels,
                    std::span<std::uint8_t> planes);

}  // namespace accrue::data
