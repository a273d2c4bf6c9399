#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data {

/// An image as its file holds it, 8 bits for each channel of a pixel.
struct DecodedImage {
  ImageShape shape;
  std::vector<std::uint8_t> bytes;
  bool in_planes = false;  ///< [C, H, W], and not pixel by pixel, [H, W, C]
};

/// What the first bytes of an encoded image (PNG, JPEG) say of it; nothing where they are none or
/// too few, or a side is longer than 16,384. Grey with alpha is grey (1 channel), colour with alpha
/// or a palette is colour (3).
std::optional<ImageShape> image_shape_of(std::span<const std::byte> encoded);

/// Why an image is not read, by its first bytes: its format ("BMP"), or a side that is too long;
/// empty: neither.
std::string other_image_format(std::span<const std::byte> encoded);

/// Decodes a PNG or a JPEG without its alpha; of 16 bits it takes the higher 8. Returns why it
/// failed, or an empty string.
std::string decode_image(std::span<const std::byte> encoded, DecodedImage& image);

}  // namespace accrue::data
