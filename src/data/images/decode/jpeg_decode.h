#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/images/decode/image_header.h"

namespace accrue::data {

/// Whether the bytes begin like a JPEG. libjpeg-turbo reads JPEG: baseline and progressive, grey
/// and colour. A warning of the library, such as of a truncated file, counts as damage.
bool is_jpeg(std::span<const std::byte> encoded);
/// The header's contents: 1 channel for grey, 3 for colour; none if it is not a JPEG header, larger
/// than `most_pixels_a_side`, or not reached in these bytes.
std::optional<ImageHeader> jpeg_header(std::span<const std::byte> encoded,
                                       std::uint32_t most_pixels_a_side);
/// Writes rows of `channels` bytes a pixel to `interleaved`. Returns why it failed, or an empty
/// string.
std::string decode_jpeg(std::span<const std::byte> encoded, const ImageShape& shape,
                        std::span<std::uint8_t> interleaved);

}  // namespace accrue::data
