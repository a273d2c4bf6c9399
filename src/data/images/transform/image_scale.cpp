#include "data/images/transform/image_scale.h"

#include <algorithm>
#include <cmath>

namespace accrue::data {
namespace {

/// Pillow's weights are fixed-point numbers whose sum over 8-bit values fits 32 bits.
constexpr int fraction_bits = 32 - 8 - 2;

/// The pixels of which one pixel of the result is made.
struct Taps {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;  ///< for `first` and the pixels after it; their sum is 1
};

Taps taps_at(double center, double support, std::int64_t pixels) {
  const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
  const auto end = std::min(pixels, static_cast<std::int64_t>(center + support + 0.5));
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const double distance = (static_cast<double>(i) - center + 0.5) * (1 / support);
    weights.push_back(std::max(0.0, 1 - std::abs(distance)));
    sum += weights.back();
  }
  Taps taps{.first = begin, .weights = {}};
  for (const double weight : weights)
    taps.weights.push_back(
        static_cast<std::int32_t>(0.5 + weight / sum * (std::int64_t{1} << fraction_bits)));
  return taps;
}

std::vector<Taps> taps_of(const ScaledSide& side) {
  const double scale = static_cast<double>(side.pixels) / static_cast<double>(side.scaled);
  std::vector<Taps> taps;
  for (std::int64_t i = side.first; i < side.first + side.kept; ++i)
    taps.push_back(
        taps_at((static_cast<double>(i) + 0.5) * scale, std::max(scale, 1.0), side.pixels));
  return taps;
}

/// The weighted sum of pixels `stride` apart, from taps.first on; the weights are not negative, so
/// the sum is a byte.
std::uint8_t weighted(const std::uint8_t* pixels, std::int64_t stride, const Taps& taps) {
  std::int32_t sum = 1 << (fraction_bits - 1);
  for (const std::int32_t weight : taps.weights) {
    sum += *pixels * weight;
    pixels += stride;
  }
  return static_cast<std::uint8_t>(std::min(sum >> fraction_bits, 255));
}

/// Where a channel's pixels lie in an image's bytes.
struct Plane {
  const std::uint8_t* pixels;
  std::int64_t row, pixel;  ///< bytes from one to the next
};

Plane plane_of(const DecodedImage& image, std::int64_t channel) {
  const auto [channels, height, width] = image.shape;
  if (image.in_planes) return {image.bytes.data() + channel * height * width, width, 1};
  return {image.bytes.data() + channel, width * channels, channels};
}

/// The plane from pixel (y, x) on.
Plane plane_from(const Plane& plane, std::int64_t y, std::int64_t x) {
  return {plane.pixels + y * plane.row + x * plane.pixel, plane.row, plane.pixel};
}

/// Scales a plane along its rows (only the rows that `down` needs), then along its columns.
void scale_plane(const Plane& plane, const std::vector<Taps>& down, const std::vector<Taps>& across,
                 CountedBytes& narrowed, std::uint8_t* out) {
  const std::int64_t first = down.front().first;
  const std::int64_t end = down.back().first + std::ssize(down.back().weights);
  const std::int64_t width = std::ssize(across);
  narrowed.clear();
  for (std::int64_t y = first; y < end; ++y)
    for (const Taps& taps : across)
      narrowed.push_back(
          weighted(plane.pixels + y * plane.row + taps.first * plane.pixel, plane.pixel, taps));
  for (const Taps& taps : down)
    for (std::int64_t x = 0; x < width; ++x)
      *out++ = weighted(narrowed.data() + (taps.first - first) * width + x, width, taps);
}

/// The source pixel of each pixel of the result. Centres are added up as in Pillow
/// (ImagingScaleAffine in src/libImaging/Geometry.c), which decides in case one lies between two.
std::vector<std::int64_t> nearest_of(const ScaledSide& side) {
  const double scale = static_cast<double>(side.pixels) / static_cast<double>(side.scaled);
  std::vector<std::int64_t> nearest;
  double center = scale * 0.5;
  for (std::int64_t i = 0; i < side.first + side.kept; ++i, center += scale)
    if (i >= side.first)
      nearest.push_back(side.begin + std::min(static_cast<std::int64_t>(center), side.pixels - 1));
  return nearest;
}

}  // namespace

CountedBytes nearest_image(const DecodedImage& image, const ScaledSide& height,
                           const ScaledSide& width) {
  const std::vector<std::int64_t> rows = nearest_of(height), columns = nearest_of(width);
  CountedBytes planes;
  planes.reserve(static_cast<std::size_t>(image.shape.channels) * rows.size() * columns.size());
  for (std::int64_t channel = 0; channel < image.shape.channels; ++channel) {
    const Plane plane = plane_of(image, channel);
    for (const std::int64_t y : rows)
      for (const std::int64_t x : columns)
        planes.push_back(plane.pixels[y * plane.row + x * plane.pixel]);
  }
  return planes;
}

CountedBytes scale_image(const DecodedImage& image, const ScaledSide& height,
                         const ScaledSide& width) {
  const std::vector<Taps> down = taps_of(height), across = taps_of(width);
  const std::int64_t area = height.kept * width.kept;
  CountedBytes planes(static_cast<std::size_t>(image.shape.channels * area));
  CountedBytes narrowed;
  for (std::int64_t channel = 0; channel < image.shape.channels; ++channel)
    scale_plane(plane_from(plane_of(image, channel), height.begin, width.begin), down, across,
                narrowed, planes.data() + channel * area);
  return planes;
}

}  // namespace accrue::data
