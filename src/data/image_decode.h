#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "accrue/data/source.h"

namespace accrue::data {

/// What the first bytes of an encoded image (PNG, JPEG) say of it; nothing where they are none or
/// too few, or a side is longer than 16,384. Grey with alpha is grey (1 channel), colour with alpha
/// or a palette is colour (3).
std::optional<ImageShape> image_shape_of(std::span<const std::byte> encoded);

/// The name of an image format that is not read, by its first bytes ("BMP"); empty: none of those.
std::string other_image_format(std::span<const std::byte> encoded);

/// Decodes into `pixels`, channel by channel ([C, H, W]), 8 bits each. Returns why it failed, or an
/// empty string.
std::string decode_image(std::span<const std::byte> encoded, const ImageShape& shape,
                         std::span<std::uint8_t> pixels);

}  // namespace accrue::data
