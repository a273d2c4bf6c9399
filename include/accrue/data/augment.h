#pragma once

#include <cstdint>
#include <optional>

namespace accrue::data {

/// The range from which a number is drawn.
struct Interval {
  double least = 0;
  double most = 0;
  bool operator==(const Interval&) const = default;
};

/// Random changes of images in training, like torchvision's transforms of the same names. They are
/// applied in the order of the members; the colour changes in an order that is drawn for each
/// image. Changes that are not set are not applied.
struct Augment {
  /// RandomResizedCrop: the fraction of the image's area to crop, drawn uniformly; the crop is
  /// scaled to the target shape. It is cut from the pixels as they are in the file. Not set: the
  /// whole image is scaled to cover that shape.
  std::optional<Interval> crop;
  /// Width / height of the crop, drawn uniformly in its logarithm.
  Interval ratio{.least = 3.0 / 4, .most = 4.0 / 3};
  /// RandomCrop with padding: the number of black pixels added around an image of the target shape,
  /// from which that shape is then cropped at a uniformly drawn place. Not allowed with `crop`.
  std::int64_t pad = 0;
  double flip = 0;  ///< RandomHorizontalFlip: the probability of mirroring left and right
  /// ColorJitter: factors are drawn uniformly from [max(0, 1 - x), 1 + x].
  double brightness = 0, contrast = 0, saturation = 0;
  double hue = 0;  ///< fraction of the colour circle, drawn from [-hue, hue]; at most 0.5
  /// RandomErasing: the probability that a box of 2 to 33% of the area is set to 0 (mid-level).
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
