#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "accrue/data/source.h"

namespace accrue::data {

/// The number of images of each shape in a set.
using ShapeCounts = std::map<ImageShape, std::int64_t>;

struct ShapeDecision {
  ImageShape shape;
  std::string reason;  ///< for people; empty if no image has to be resized
};

/// The shape to which the images of a set are resized, as open_source() defines it. `wanted` is the
/// part that is known already, with 0 for what the images decide. There is at least one image.
ShapeDecision decide_image_shape(const ShapeCounts& counts, const ImageShape& wanted);

}  // namespace accrue::data
