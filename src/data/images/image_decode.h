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
  bool in_planes = false;  ///< [C, H, W]; else pixel by pixel, [H, W, C]
};

/// What the first bytes of an encoded image (PNG, JPEG) say of it; nothing where they are none or
/// too few, or a side is longer than 16,384. Grey with alpha is grey (1 channel), colour with alpha
/// or a palette is colour (3).
std::optional<ImageShape> image_shape_of(std::span<const std::byte> encoded);

/// What an image that is not read is, by its first bytes: a format ("BMP"), or one with a longer
/// side; empty: neither.
std::string other_image_format(std::span<const std::byte> encoded);

/// Decodes a PNG or a JPEG: alpha left out, of 16 bits the higher 8. Returns why it failed, or an
/// empty string.
std::string decode_image(std::span<const std::byte> encoded, DecodedImage& image);

}  // namespace accrue::data
