#include "data/images/image_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/images/image_scale.h"

namespace accrue::data {
namespace {

/// The value in [-1, 1] of each byte.
std::array<float, 256> make_levels() {
  std::array<float, 256> levels{};
  for (std::size_t i = 0; i < levels.size(); ++i)
    levels[i] = (static_cast<float>(i) / 255 - 0.5F) / 0.5F;
  return levels;
}

/// The luma of ITU-R 601-2 in 16 bits of fraction, as Pillow's convert("L") takes it.
DecodedImage grey_of(const DecodedImage& image) {
  DecodedImage grey{.shape = image.shape, .bytes = {}, .in_planes = true};
  grey.shape.channels = 1;
  grey.bytes.resize(image.bytes.size() / 3);
  const std::size_t pixel = image.in_planes ? 1 : 3;
  const std::size_t channel = image.in_planes ? grey.bytes.size() : 1;
  for (std::size_t i = 0; i < grey.bytes.size(); ++i) {
    const std::uint8_t* const red = image.bytes.data() + i * pixel;
    const std::uint32_t luma =
        red[0] * 19595U + red[channel] * 38470U + red[2 * channel] * 7471U + 0x8000U;
    grey.bytes[i] = static_cast<std::uint8_t>(luma >> 16);
  }
  return grey;
}

/// The middle of a side that is scaled, half a pixel going to the even margin as torchvision
/// rounds.
ScaledSide middle(std::int64_t pixels, std::int64_t scaled, std::int64_t kept) {
  const double margin = static_cast<double>(scaled - kept) / 2;
  return {.pixels = pixels, .scaled = scaled, .first = std::llrint(margin), .kept = kept};
}

/// The image scaled to the smallest size of its proportions that covers the target, of which the
/// centre is kept.
DecodedImage scaled_to(const DecodedImage& image, const ImageShape& target) {
  const auto [channels, height, width] = image.shape;
  const bool fills_height = target.height * width >= target.width * height;
  const std::int64_t scaled_height = fills_height ? target.height : height * target.width / width;
  const std::int64_t scaled_width = fills_height ? width * target.height / height : target.width;
  return {.shape = {channels, target.height, target.width},
          .bytes = scale_image(image, middle(height, scaled_height, target.height),
                               middle(width, scaled_width, target.width)),
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

}  // namespace

void fit_image(const DecodedImage& image, const ImageShape& target,
               std::span<std::uint8_t> planes) {
  if (image.shape.channels != 1 && target.channels == 1)
    return fit_image(grey_of(image), target, planes);
  const bool fits = image.shape.height == target.height && image.shape.width == target.width;
  copy_planes(fits ? image : scaled_to(image, target), target.channels, planes.data());
}

void normalise_image(std::span<const std::uint8_t> planes, float* values) {
  static const std::array<float, 256> levels = make_levels();
  std::ranges::transform(planes, values, [](std::uint8_t byte) { return levels[byte]; });
}

}  // namespace accrue::data
