#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/images/decode/image_decode.h"

namespace accrue::data {

/// The class number of a pixel that is not counted.
inline constexpr std::uint8_t ignored_class = 255;

/// Why an encoded file is not a mask, by its first bytes ("a PNG in colour"); empty if it may be.
std::string why_no_mask(std::span<const std::byte> encoded);

/// Decodes a PNG's numbers as one channel. Returns why it failed, or an empty string.
std::string decode_mask(std::span<const std::byte> encoded, DecodedImage& mask);

/// For each of `images` the mask of its name, by the rules of open_source(). Throws a usage Error
/// if one has none or several, or two have the same one.
std::vector<std::filesystem::path> masks_of(const std::vector<std::filesystem::path>& images,
                                            const std::vector<std::filesystem::path>& masks);

}  // namespace accrue::data
