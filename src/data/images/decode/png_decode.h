#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "accrue/data/source.h"

namespace accrue::data {

/// Whether the bytes begin like a PNG. PNG is read by libspng: every bit depth, interlaced or not,
/// as 8 bits a channel. Palettes are colour; alpha and colour keys are left out.
bool is_png(std::span<const std::byte> encoded);
/// The header's contents: 1 channel for grey, 3 for colour; none if it is not a PNG header, or
/// larger than `most_pixels_a_side`. The first 33 bytes are enough.
std::optional<ImageShape> png_shape(std::span<const std::byte> encoded,
                                    std::uint32_t most_pixels_a_side);
/// Writes rows of 3 bytes a pixel to `interleaved`, a grey byte three times. Returns why it failed,
/// or an empty string.
std::string decode_png(std::span<const std::byte> encoded, std::span<std::uint8_t> interleaved);

/// Whether each pixel is one number of at most 8 bits: grey without alpha, or an index into a
/// palette. The first 33 bytes are enough.
bool png_holds_numbers(std::span<const std::byte> encoded);
/// Writes these numbers as in the file, also those of fewer bits. Returns why it failed, or an
/// empty string.
std::string decode_png_numbers(std::span<const std::byte> encoded, std::span<std::uint8_t> numbers);

}  // namespace accrue::data
