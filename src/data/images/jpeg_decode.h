#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/images/image_header.h"

namespace accrue::data {

/// Whether the bytes begin as a JPEG does. JPEG is read by libjpeg-turbo: baseline and progressive,
/// grey and colour. What the library would only warn of, a file cut short above all, is damage.
bool is_jpeg(std::span<const std::byte> encoded);
/// What the header says: 1 channel of grey, 3 of colour; nothing if it is no JPEG header, larger
/// than `most_pixels_a_side`, or not reached in these bytes.
std::optional<ImageHeader> jpeg_header(std::span<const std::byte> encoded,
                                       std::uint32_t most_pixels_a_side);
/// Writes rows of `channels` bytes a pixel to `interleaved`. Returns why it failed, or an empty
/// string.
std::string decode_jpeg(std::span<const std::byte> encoded, const ImageShape& shape,
                        std::span<std::uint8_t> interleaved);

}  // namespace accrue::data
