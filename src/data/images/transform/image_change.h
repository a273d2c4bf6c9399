#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/augment.h"
#include "accrue/data/source.h"

namespace accrue::data {

/// A rectangle of an image, in pixels.
struct PixelBox {
  std::int64_t top = 0, left = 0;
  std::int64_t height = 0, width = 0;
};

enum class ColourAspect { brightness, contrast, saturation, hue };

struct ColourChange {
  ColourAspect aspect = ColourAspect::brightness;
  double amount = 1;  ///< a factor; for the hue a part of a turn
};

/// The changes of one image by an Augment, in the order in which they are applied.
struct ImageChange {
  std::optional<PixelBox> crop;  ///< of the image as in the file
  std::int64_t shift_y = 0;      ///< pixel (y, x) becomes what was at (y + shift_y,
  std::int64_t shift_x = 0;      ///< x + shift_x); black if nothing was
  bool is_flipped = false;
  std::vector<ColourChange> colours;
  std::optional<PixelBox> erased;  ///< of the changed image
};

/// The draw of a run that uses the image.
struct DrawKey {
  std::uint64_t seed = 0;
  std::int64_t draw = 0;  ///< the draw's ordinal
};

/// Draws the changes of an image of `from`'s size that is resized to `to`: a pure function, so that
/// no split, thread or resumption changes it. Each quantity has its own number in the draw, so that
/// other requested changes do not affect it either.
ImageChange draw_change(const Augment& augment, const DrawKey& key, const ImageShape& from,
                        const ImageShape& to);

/// The changes, for people: "a crop of 0.08 to 1 of the area, ...".
std::string augment_in_words(const Augment& augment);

}  // namespace accrue::data
