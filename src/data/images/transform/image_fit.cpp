#include "data/images/transform/image_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/images/transform/image_colours.h"
#include "data/images/transform/image_luma.h"
#include "data/images/transform/image_scale.h"

namespace accrue::data {
namespace {

/// The value in [-1, 1] of each byte.
std::array<float, 256> make_levels() {
  std::array<float, 256> levels{};
  for (std::size_t i = 0; i < levels.size(); ++i)
    levels[i] = (static_cast<float>(i) / 255 - 0.5F) / 0.5F;
  return levels;
}

DecodedImage grey_of(const DecodedImage& image) {
  DecodedImage grey{.shape = image.shape, .bytes = {}, .in_planes = true};
  grey.shape.channels = 1;
  grey.bytes.resize(image.bytes.size() / 3);
  const std::size_t pixel = image.in_planes ? 1 : 3;
  const std::size_t channel = image.in_planes ? grey.bytes.size() : 1;
  for (std::size_t i = 0; i < grey.bytes.size(); ++i) {
    const std::uint8_t* const red = image.bytes.data() + i * pixel;
    grey.bytes[i] = luma(red[0], red[channel], red[2 * channel]);
  }
  return grey;
}

/// The middle of a side that is scaled; half a pixel goes to the even margin as torchvision
/// rounds.
ScaledSide middle(std::int64_t pixels, std::int64_t scaled, std::int64_t kept) {
  const double margin = static_cast<double>(scaled - kept) / 2;
  return {.pixels = pixels, .scaled = scaled, .first = std::llrint(margin), .kept = kept};
}

/// The kept part of an image, and how it is scaled.
struct Scaling {
  ScaledSide height, width;
};

/// To the smallest size of the image's proportions that covers the target; its centre is
/// kept.
Scaling covering(const ImageShape& image, const ImageShape& target) {
  const std::int64_t height = image.height, width = image.width;
  const bool fills_height = target.height * width >= target.width * height;
  const std::int64_t scaled_height = fills_height ? target.height : height * target.width / width;
  const std::int64_t scaled_width = fills_height ? width * target.height / height : target.width;
  return {.height = middle(height, scaled_height, target.height),
          .width = middle(width, scaled_width, target.width)};
}

/// From that box, to the target whatever its proportions.
Scaling of_box(const PixelBox& box, const ImageShape& target) {
  const auto side = [](std::int64_t begin, std::int64_t pixels, std::int64_t scaled) {
    return ScaledSide{
        .begin = begin, .pixels = pixels, .scaled = scaled, .first = 0, .kept = scaled};
  };
  return {.height = side(box.top, box.height, target.height),
          .width = side(box.left, box.width, target.width)};
}

DecodedImage scaled_to(const DecodedImage& image, const Scaling& scaling,
                       const ImageShape& target) {
  return {.shape = {image.shape.channels, target.height, target.width},
          .bytes = scale_image(image, scaling.height, scaling.width),
          .in_planes = true};
}

/// Copies an image of the target's size as `channels` planes; a single plane is repeated.
void copy_planes(const DecodedImage& image, std::int64_t channels, std::uint8_t* planes) {
  const auto area = static_cast<std::size_t>(image.shape.height * image.shape.width);
  const std::size_t pixel = image.in_planes ? 1 : static_cast<std::size_t>(image.shape.channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto channel = static_cast<std::size_t>(std::min(c, image.shape.channels - 1));
    const std::uint8_t* const first = image.bytes.data() + channel * (image.in_planes ? area : 1);
    for (std::size_t i = 0; i < area; ++i) *planes++ = first[i * pixel];
  }
}

/// Each pixel becomes the one this far below and to the right of it; `outside` if there was none.
void shift(const ImageShape& shape, std::int64_t down, std::int64_t right, std::uint8_t outside,
           std::span<std::uint8_t> planes) {
  const std::vector<std::uint8_t> before(planes.begin(), planes.end());
  const auto is_inside = [&](std::int64_t y, std::int64_t x) {
    return y >= 0 && y < shape.height && x >= 0 && x < shape.width;
  };
  std::uint8_t* out = planes.data();
  for (std::int64_t c = 0; c < shape.channels; ++c)
    for (std::int64_t y = down; y < shape.height + down; ++y)
      for (std::int64_t x = right; x < shape.width + right; ++x)
        *out++ = is_inside(y, x)
                     ? before[static_cast<std::size_t>((c * shape.height + y) * shape.width + x)]
                     : outside;
}

void flip_rows(std::int64_t width, std::span<std::uint8_t> planes) {
  for (auto row = planes.begin(); row != planes.end(); row += width) std::reverse(row, row + width);
}

}  // namespace

void fit_image(const DecodedImage& image, const ImageShape& target,
               std::span<std::uint8_t> planes) {
  if (image.shape.channels != 1 && target.channels == 1)
    return fit_image(grey_of(image), target, planes);
  const bool fits = image.shape.height == target.height && image.shape.width == target.width;
  copy_planes(fits ? image : scaled_to(image, covering(image.shape, target), target),
              target.channels, planes.data());
}

void fit_changed_image(const DecodedImage& image, const ImageShape& target,
                       const ImageChange& change, std::span<std::uint8_t> planes) {
  if (image.shape.channels != 1 && target.channels == 1)
    return fit_changed_image(grey_of(image), target, change, planes);
  if (change.crop)
    copy_planes(scaled_to(image, of_box(*change.crop, target), target), target.channels,
                planes.data());
  else
    fit_image(image, target, planes);
  if (change.shift_y != 0 || change.shift_x != 0)
    shift(target, change.shift_y, change.shift_x, 0, planes);
  if (change.is_flipped) flip_rows(target.width, planes);
  for (const ColourChange& colour : change.colours) change_colours(colour, target.channels, planes);
}

void fit_changed_mask(const DecodedImage& mask, const ImageShape& target, const ImageChange& change,
                      std::span<std::uint8_t> classes) {
  const Scaling scaling = change.crop ? of_box(*change.crop, target) : covering(mask.shape, target);
  std::ranges::copy(nearest_image(mask, scaling.height, scaling.width), classes.begin());
  if (change.shift_y != 0 || change.shift_x != 0)
    shift({1, target.height, target.width}, change.shift_y, change.shift_x, ignored_class, classes);
  if (change.is_flipped) flip_rows(target.width, classes);
}

void erase_box(const PixelBox& box, const ImageShape& shape, std::span<float> values) {
  for (std::int64_t c = 0; c < shape.channels; ++c)
    for (std::int64_t y = box.top; y < box.top + box.height; ++y)
      std::fill_n(values.begin() + (c * shape.height + y) * shape.width + box.left, box.width,
                  0.0F);
}

void normalise_image(std::span<const std::uint8_t> planes, float* values) {
  static const std::array<float, 256> levels = make_levels();
  std::ranges::transform(planes, values, [](std::uint8_t byte) { return levels[byte]; });
}

}  // namespace accrue::data
