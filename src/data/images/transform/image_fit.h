#pragma once

#include <cstdint>
#include <span>

#include "accrue/data/source.h"
#include "data/images/decode/image_decode.h"
#include "data/images/decode/image_mask.h"
#include "data/images/transform/image_change.h"

namespace accrue::data {

/// Resizes a decoded image to shape `target`, by the rules of open_source(), as bytes [C, H, W].
void fit_image(const DecodedImage& image, const ImageShape& target, std::span<std::uint8_t> planes);

/// The same as fit_image(), with the changes of `change`, except for erasing
/// (erase_box).
void fit_changed_image(const DecodedImage& image, const ImageShape& target,
                       const ImageChange& change, std::span<std::uint8_t> planes);

/// Moves the pixels of a mask of one channel as fit_changed_image() moves those of its image, by
/// the nearest pixel; the outside gets the ignored class. `classes` is [H, W].
void fit_changed_mask(const DecodedImage& mask, const ImageShape& target, const ImageChange& change,
                      std::span<std::uint8_t> classes);

/// Sets that box of the values [C, H, W] to 0.
void erase_box(const PixelBox& box, const ImageShape& shape, std::span<float> values);

/// Converts bytes to a model's input: scaled to [0, 1], then normalised with mean and deviation
/// 0.5, so from -1 to 1. `values` has room for the same number.
void normalise_image(std::span<const std::uint8_t> planes, float* values);

}  // namespace accrue::data
