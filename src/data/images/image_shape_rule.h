#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "accrue/data/source.h"

namespace accrue::data {

/// How many images of a set have each shape.
using ShapeCounts = std::map<ImageShape, std::int64_t>;

struct ShapeDecision {
  ImageShape shape;
  std::string reason;  ///< for people; empty if no image has to be changed
};

/// What the images of a set are brought to, as open_source() says. `wanted` is what is known
/// already, with 0 for what is left to the images. There is at least one image.
ShapeDecision decide_image_shape(const ShapeCounts& counts, const ImageShape& wanted);

}  // namespace accrue::data
