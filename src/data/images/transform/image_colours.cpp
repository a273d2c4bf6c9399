#include "data/images/transform/image_colours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "data/images/transform/image_luma.h"

namespace accrue::data {
namespace {

constexpr double highest_level = 255;

/// `from` plus the difference to `to` times `factor`, which may go beyond either; Pillow's
/// arithmetic is that of fp32, truncated to a level.
std::uint8_t blended(std::uint8_t from, std::uint8_t to, float factor) {
  const float level = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<std::uint8_t>(std::clamp(level, 0.0F, 255.0F));
}

/// The luma of each pixel.
std::vector<std::uint8_t> luma_of(std::span<const std::uint8_t> planes, std::int64_t channels) {
  if (channels == 1) return {planes.begin(), planes.end()};
  const std::size_t area = planes.size() / 3;
  std::vector<std::uint8_t> grey(area);
  for (std::size_t i = 0; i < area; ++i)
    grey[i] = luma(planes[i], planes[area + i], planes[2 * area + i]);
  return grey;
}

void change_brightness(float factor, std::span<std::uint8_t> planes) {
  for (std::uint8_t& level : planes) level = blended(0, level, factor);
}

void change_contrast(float factor, std::int64_t channels, std::span<std::uint8_t> planes) {
  const std::vector<std::uint8_t> grey = luma_of(planes, channels);
  const auto sum = static_cast<double>(std::accumulate(grey.begin(), grey.end(), std::int64_t{0}));
  const auto mean = static_cast<std::uint8_t>(sum / static_cast<double>(grey.size()) + 0.5);
  for (std::uint8_t& level : planes) level = blended(mean, level, factor);
}

void change_saturation(float factor, std::int64_t channels, std::span<std::uint8_t> planes) {
  const std::vector<std::uint8_t> grey = luma_of(planes, channels);
  for (std::size_t i = 0; i < planes.size(); ++i)
    planes[i] = blended(grey[i % grey.size()], planes[i], factor);
}

std::uint8_t level_of(double value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0, highest_level));
}

/// Red, green, blue; or hue (the whole circle being 255), saturation, value.
using Triple = std::array<std::uint8_t, 3>;

Triple hsv_of(const Triple& rgb) {
  const auto [red, green, blue] = rgb;
  const std::uint8_t most = std::max({red, green, blue}), least = std::min({red, green, blue});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const auto below_most = [&](std::uint8_t level) {
    return static_cast<float>(most - level) / range;
  };
  float sixths = 0;
  if (red == most)
    sixths = below_most(blue) - below_most(green);
  else if (green == most)
    sixths = static_cast<float>(2.0 + below_most(red) - below_most(blue));
  else
    sixths = static_cast<float>(4.0 + below_most(green) - below_most(red));
  const auto turn = static_cast<float>(std::fmod(sixths / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(most);
  return {level_of(turn * highest_level), level_of(saturation * highest_level), most};
}

Triple rgb_of(const Triple& hsv) {
  const auto [hue, saturation, value] = hsv;
  if (saturation == 0) return {value, value, value};
  const double sixths = static_cast<float>(hue) * 6.0 / highest_level;
  const int sector = static_cast<int>(sixths);
  const auto rest = static_cast<float>(sixths - static_cast<float>(sector));
  const auto share = static_cast<float>(saturation / highest_level);
  const auto bright = static_cast<float>(value);
  const auto dimmed = [&](double by) { return level_of(std::round(bright * (1.0 - by))); };
  const std::uint8_t low = dimmed(share), falling = dimmed(share * rest),
                     rising = dimmed(share * (1.0 - rest));
  switch (sector % 6) {
    case 0:
      return {value, rising, low};
    case 1:
      return {falling, value, low};
    case 2:
      return {low, value, rising};
    case 3:
      return {low, falling, value};
    case 4:
      return {rising, low, value};
    default:
      return {value, low, falling};
  }
}

void turn_hue(double turn, std::span<std::uint8_t> planes) {
  const std::size_t area = planes.size() / 3;
  const auto shift = static_cast<int>(turn * highest_level);
  for (std::size_t i = 0; i < area; ++i) {
    Triple hsv = hsv_of({planes[i], planes[area + i], planes[2 * area + i]});
    hsv[0] = static_cast<std::uint8_t>(hsv[0] + shift);
    const Triple rgb = rgb_of(hsv);
    for (std::size_t channel = 0; channel < 3; ++channel) planes[channel * area + i] = rgb[channel];
  }
}

}  // namespace

void change_colours(const ColourChange& change, std::int64_t channels,
                    std::span<std::uint8_t> planes) {
  const auto factor = static_cast<float>(change.amount);
  switch (change.aspect) {
    case ColourAspect::brightness:
      return change_brightness(factor, planes);
    case ColourAspect::contrast:
      return change_contrast(factor, channels, planes);
    case ColourAspect::saturation:
      return change_saturation(factor, channels, planes);
    case ColourAspect::hue:
      if (channels == 3) turn_hue(change.amount, planes);
  }
}

}  // namespace accrue::data
