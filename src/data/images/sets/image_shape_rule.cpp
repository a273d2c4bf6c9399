#include "data/images/sets/image_shape_rule.h"

#include <algorithm>
#include <optional>

namespace accrue::data {
namespace {

struct Size {
  std::int64_t height = 0, width = 0;
  auto operator<=>(const Size&) const = default;
};
using SizeCounts = std::map<Size, std::int64_t>;

Size size_of(const ImageShape& shape) { return {shape.height, shape.width}; }

std::string text_of(const Size& size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width);
}

std::string images(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " image" : " images");
}

SizeCounts sizes_of(const ShapeCounts& counts) {
  SizeCounts sizes;
  for (const auto& [shape, count] : counts) sizes[size_of(shape)] += count;
  return sizes;
}

std::int64_t count_of(const SizeCounts& sizes) {
  std::int64_t count = 0;
  for (const auto& [size, images] : sizes) count += images;
  return count;
}

/// The size of more than half of the images.
std::optional<Size> common_size(const SizeCounts& sizes) {
  const std::int64_t all = count_of(sizes);
  for (const auto& [size, count] : sizes)
    if (2 * count > all) return size;
  return std::nullopt;
}

/// The median; for an even number of images the lower one.
std::int64_t median_of_shorter_sides(const SizeCounts& sizes) {
  std::map<std::int64_t, std::int64_t> sides;
  for (const auto& [size, count] : sizes) sides[std::min(size.height, size.width)] += count;
  const std::int64_t all = count_of(sizes);
  std::int64_t so_far = 0;
  for (const auto& [side, count] : sides)
    if (2 * (so_far += count) >= all) return side;
  return 0;
}

/// The side to which images are resized: a number that patches and strides divide.
std::int64_t side_for(std::int64_t median) {
  constexpr std::int64_t most = 224, coarse = 32, fine = 8;
  const std::int64_t side = std::min(median, most);
  if (side < fine) return side;
  return side - side % (side < coarse ? fine : coarse);
}

Size automatic_size(const SizeCounts& sizes) {
  if (const std::optional<Size> common = common_size(sizes)) return *common;
  const std::int64_t side = side_for(median_of_shorter_sides(sizes));
  return {side, side};
}

std::string why_scaled(const SizeCounts& sizes, const Size& target, bool is_stated) {
  const auto alike = sizes.find(target);
  const std::int64_t others = count_of(sizes) - (alike == sizes.end() ? 0 : alike->second);
  if (others == 0) return "";
  const std::string what = images(others) + " of other sizes " + (others == 1 ? "is" : "are") +
                           " scaled to cover " + text_of(target) + " and cut to the centre";
  if (is_stated) return what;
  if (common_size(sizes)) return what + ", the size that most have; data.image states another size";
  return what + ", because there are " + std::to_string(sizes.size()) + " sizes (" +
         text_of(sizes.begin()->first) + " to " + text_of(sizes.rbegin()->first) +
         ") and the median of the shorter sides is " +
         std::to_string(median_of_shorter_sides(sizes)) +
         " (at most 224, in steps of 32); data.image states another size";
}

std::string why_recoloured(const ShapeCounts& counts, std::int64_t channels) {
  std::int64_t others = 0;
  for (const auto& [shape, count] : counts) others += shape.channels == channels ? 0 : count;
  if (others == 0) return "";
  return images(others) + (channels == 1 ? " in colour turned grey, as the training data are"
                                         : " in grey taken as colour, as the others are");
}

}  // namespace

ShapeDecision decide_image_shape(const ShapeCounts& counts, const ImageShape& wanted) {
  ShapeDecision decision{.shape = wanted, .reason = {}};
  const SizeCounts sizes = sizes_of(counts);
  if (wanted.channels == 0) decision.shape.channels = counts.rbegin()->first.channels;
  const bool is_stated = wanted.height != 0;
  const Size size = is_stated ? size_of(wanted) : automatic_size(sizes);
  decision.shape.height = size.height;
  decision.shape.width = size.width;
  decision.reason = why_scaled(sizes, size, is_stated);
  const std::string colours = why_recoloured(counts, decision.shape.channels);
  if (!decision.reason.empty() && !colours.empty()) decision.reason += "; ";
  decision.reason += colours;
  return decision;
}

}  // namespace accrue::data
