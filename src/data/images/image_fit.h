#pragma once

#include <cstdint>
#include <span>

#include "accrue/data/source.h"
#include "data/images/image_change.h"
#include "data/images/image_decode.h"
#include "data/images/image_mask.h"

namespace accrue::data {

/// Brings a decoded image to the shape `target`, by the rules of open_source(), as bytes [C, H, W].
void fit_image(const DecodedImage& image, const ImageShape& target, std::span<std::uint8_t> planes);

/// Does what fit_image() does, with the changes that `change` says, but for what is erased
/// (erase_box).
void fit_changed_image(const DecodedImage& image, const ImageShape& target,
                       const ImageChange& change, std::span<std::uint8_t> planes);

/// Does to a mask of one channel what fit_changed_image() does to the place of its image's pixels,
/// by the nearest pixel; what lies outside is of the ignored class. `classes` is [H, W].
void fit_changed_mask(const DecodedImage& mask, const ImageShape& target, const ImageChange& change,
                      std::span<std::uint8_t> classes);

/// Sets that box of the values [C, H, W] to 0.
void erase_box(const PixelBox& box, const ImageShape& shape, std::span<float> values);

/// Turns bytes into what a model reads: scaled to [0, 1], then with mean and deviation 0.5 taken
/// out, so from -1 to 1. `values` has room for as many.
void normalise_image(std::span<const std::uint8_t> planes, float* values);

}  // namespace accrue::data
