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
  double amount = 1;  ///< a factor; of the hue a part of a turn
};

/// What an Augment comes to for one image, in the order in which it is done.
struct ImageChange {
  std::optional<PixelBox> crop;  ///< of the image as the file has it
  std::int64_t shift_y = 0;      ///< pixel (y, x) becomes what was at (y + shift_y,
  std::int64_t shift_x = 0;      ///< x + shift_x); black if nothing was
  bool is_flipped = false;
  std::vector<ColourChange> colours;
  std::optional<PixelBox> erased;  ///< of the image as it has become
};

/// Which draw of a run sees the image.
struct DrawKey {
  std::uint64_t seed = 0;
  std::int64_t draw = 0;  ///< the draw's ordinal
};

/// Draws what becomes of an image of `from`'s size that is brought to `to`: a pure function, so
/// that no split, thread or resumption changes it. Each quantity has a number of its own of the
/// draw's, so that what is asked for besides does not change it either.
ImageChange draw_change(const Augment& augment, const DrawKey& key, const ImageShape& from,
                        const ImageShape& to);

/// What is done, for people: "a crop of 0.08 to 1 of the area, ...".
std::string augment_in_words(const Augment& augment);

}  // namespace accrue::data
