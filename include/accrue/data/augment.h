#pragma once

#include <cstdint>
#include <optional>

namespace accrue::data {

/// From the least to the most of a number that is drawn in between.
struct Interval {
  double least = 0;
  double most = 0;
  bool operator==(const Interval&) const = default;
};

/// How images are changed at random in training, as torchvision's transforms of these names do it.
/// The changes come in the order of the members; colours among themselves in an order that is drawn
/// for each image. What none of them asks for is left as it is.
struct Augment {
  /// RandomResizedCrop: the share of an image's area that is cut out, evenly drawn, and scaled to
  /// the shape that images are brought to. It is cut from the pixels as the file has them. None:
  /// the whole image is scaled to cover that shape.
  std::optional<Interval> crop;
  /// Width by height of what is cut out, drawn evenly in its logarithm.
  Interval ratio{.least = 3.0 / 4, .most = 4.0 / 3};
  /// RandomCrop with padding: how many black pixels are put around an image that has its shape,
  /// of which that shape is then cut out, any place being as likely. Not beside `crop`.
  std::int64_t pad = 0;
  double flip = 0;  ///< RandomHorizontalFlip: how often left and right change places
  /// ColorJitter: factors are drawn evenly from [max(0, 1 - x), 1 + x].
  double brightness = 0, contrast = 0, saturation = 0;
  double hue = 0;  ///< of a turn of the circle of colours, drawn from [-hue, hue]; at most 0.5
  /// RandomErasing: how often a box of 2 to 33% of the area is set to 0, the middle of the levels.
  double erase = 0;

  bool changes_colours() const {
    return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0;
  }
  bool changes_anything() const {
    return crop || pad > 0 || flip > 0 || changes_colours() || erase > 0;
  }
  bool operator==(const Augment&) const = default;
};

}  // namespace accrue::data
