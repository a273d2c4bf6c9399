#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/images/decode/counted_bytes.h"
#include "data/images/decode/image_header.h"

namespace accrue::data {

/// An image as in its file, 8 bits for each channel of a pixel.
struct DecodedImage {
  ImageShape shape;
  CountedBytes bytes;
  bool in_planes = false;  ///< [C, H, W] rather than pixel by pixel, [H, W, C]
};

/// The header of a PNG or a JPEG from its first bytes; none if they are not an image or too few, or
/// a side is longer than 16,384.
std::optional<ImageHeader> image_header_of(std::span<const std::byte> encoded);
/// The shape of that header.
std::optional<ImageShape> image_shape_of(std::span<const std::byte> encoded);

/// Why an image is not read, by its first bytes: its format ("BMP"), or a side that is too long;
/// empty if neither.
std::string other_image_format(std::span<const std::byte> encoded);

/// Decodes a PNG or a JPEG without its alpha; of 16 bits it uses the higher 8. Returns why it
/// failed, or an empty string.
std::string decode_image(std::span<const std::byte> encoded, DecodedImage& image);

}  // namespace accrue::data
