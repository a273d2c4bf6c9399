#pragma once

#include <cstdint>
#include <span>

#include "data/images/decode/image_decode.h"

namespace accrue::data {

/// A part of a side that is scaled: `pixels` from `begin` on become `scaled`, of which `kept` from
/// `first` on are kept.
struct ScaledSide {
  std::int64_t begin = 0;
  std::int64_t pixels = 0;
  std::int64_t scaled = 0;
  std::int64_t first = 0;
  std::int64_t kept = 0;
};

/// Scales that part of an image and keeps the given part of the result, as Pillow's crop() and
/// resize(Image.Resampling.BILINEAR) do: weights fall linearly to 0 at the distance of a pixel of
/// the result (at least of the image), along rows, then along columns, each rounded to 8 bits
/// (Pillow's src/libImaging/Resample.c). The result has Pillow's bits, or is one level of 255 apart
/// if a version of Pillow takes the columns first. It is in planes, one for each channel. Work and
/// memory depend on the kept part (docs/notes/images.md explains why this is not ATen's).
CountedBytes scale_image(const DecodedImage& image, const ScaledSide& height,
                         const ScaledSide& width);

/// The same by the nearest pixel, as in Pillow's resize(Image.Resampling.NEAREST): each pixel of
/// the result is the one that contains its centre.
CountedBytes nearest_image(const DecodedImage& image, const ScaledSide& height,
                           const ScaledSide& width);

}  // namespace accrue::data
