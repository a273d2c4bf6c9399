#include "data/images/transform/image_change.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "core/words.h"

namespace accrue::data {
namespace {

constexpr std::uint64_t augment_stream = std::uint64_t{0x41554753} << 32;

/// Boxes are drawn up to this many times until one fits.
constexpr std::uint64_t most_tries = 10;
constexpr std::uint64_t numbers_of_a_try = 4;

/// The purposes of a draw's numbers.
namespace number {
enum Number : std::uint64_t {
  crop_tries = 0,
  erase_tries = most_tries * numbers_of_a_try,
  shift_down = 2 * most_tries * numbers_of_a_try,
  shift_right,
  flip,
  colour_order,
  brightness,
  contrast,
  saturation,
  hue,
  erase,
  count
};
}  // namespace number
constexpr std::uint64_t numbers_of_a_draw = 128;
static_assert(number::count <= numbers_of_a_draw);

/// The random numbers of one draw.
class DrawnNumbers {
 public:
  explicit DrawnNumbers(const DrawKey& key) : key_(key) {}

  /// Uniform in [0, 1).
  double unit(std::uint64_t number) const {
    return random_unit(key_.seed, augment_stream,
                       static_cast<std::uint64_t>(key_.draw) * numbers_of_a_draw + number);
  }
  double within(const Interval& interval, std::uint64_t number) const {
    return interval.least + (interval.most - interval.least) * unit(number);
  }
  bool happens(double probability, std::uint64_t number) const {
    return unit(number) < probability;
  }
  /// One of 0 ... count - 1.
  std::int64_t one_of(std::int64_t count, std::uint64_t number) const {
    const auto drawn = static_cast<std::int64_t>(unit(number) * static_cast<double>(count));
    return std::min(drawn, count - 1);
  }

 private:
  DrawKey key_;
};

struct BoxSize {
  std::int64_t height = 0, width = 0;
};

/// A box of that area and proportion (width by height) in whole pixels, halves rounded to the even
/// number as in Python.
BoxSize box_of(double area, double proportion) {
  return {.height = std::llrint(std::sqrt(area / proportion)),
          .width = std::llrint(std::sqrt(area * proportion))};
}

/// The logarithms of an interval's ends.
Interval logarithms(const Interval& interval) {
  return {std::log(interval.least), std::log(interval.most)};
}

PixelBox placed(const BoxSize& box, const ImageShape& image, const DrawnNumbers& numbers,
                std::uint64_t first_number) {
  return {.top = numbers.one_of(image.height - box.height + 1, first_number),
          .left = numbers.one_of(image.width - box.width + 1, first_number + 1),
          .height = box.height,
          .width = box.width};
}

/// The middle of an image, as much as the proportions allow: for an image so long that no box fits.
PixelBox middle_box(const ImageShape& image, const Interval& ratio) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  BoxSize box{image.height, image.width};
  if (width < ratio.least * height)
    box.height = std::max<std::int64_t>(1, std::llrint(width / ratio.least));
  else if (width > ratio.most * height)
    box.width = std::max<std::int64_t>(1, std::llrint(height * ratio.most));
  return {.top = (image.height - box.height) / 2,
          .left = (image.width - box.width) / 2,
          .height = box.height,
          .width = box.width};
}

PixelBox draw_crop(const Augment& augment, const DrawnNumbers& numbers, const ImageShape& image) {
  const auto area = static_cast<double>(image.height * image.width);
  const Interval logarithm = logarithms(augment.ratio);
  for (std::uint64_t i = 0; i < most_tries; ++i) {
    const std::uint64_t first = number::crop_tries + i * numbers_of_a_try;
    const double share = numbers.within(*augment.crop, first);
    const BoxSize box = box_of(area * share, std::exp(numbers.within(logarithm, first + 1)));
    if (box.height >= 1 && box.height <= image.height && box.width >= 1 && box.width <= image.width)
      return placed(box, image, numbers, first + 2);
  }
  return middle_box(image, augment.ratio);
}

/// The box to erase; none if none of the tries is smaller than the image.
std::optional<PixelBox> draw_erased(const DrawnNumbers& numbers, const ImageShape& image) {
  constexpr Interval shares{.least = 0.02, .most = 0.33},
      height_by_width{.least = 0.3, .most = 3.3};
  const auto area = static_cast<double>(image.height * image.width);
  const Interval logarithm = logarithms(height_by_width);
  for (std::uint64_t i = 0; i < most_tries; ++i) {
    const std::uint64_t first = number::erase_tries + i * numbers_of_a_try;
    const double share = numbers.within(shares, first);
    const BoxSize box = box_of(area * share, std::exp(-numbers.within(logarithm, first + 1)));
    if (box.height < image.height && box.width < image.width)
      return placed(box, image, numbers, first + 2);
  }
  return std::nullopt;
}

double strength_of(const Augment& augment, ColourAspect aspect) {
  switch (aspect) {
    case ColourAspect::brightness:
      return augment.brightness;
    case ColourAspect::contrast:
      return augment.contrast;
    case ColourAspect::saturation:
      return augment.saturation;
    case ColourAspect::hue:
      break;
  }
  return augment.hue;
}

ColourChange draw_colour(ColourAspect aspect, double strength, const DrawnNumbers& numbers) {
  const std::uint64_t first = number::brightness + static_cast<std::uint64_t>(aspect);
  const Interval amounts = aspect == ColourAspect::hue
                               ? Interval{-strength, strength}
                               : Interval{std::max(0.0, 1 - strength), 1 + strength};
  return {.aspect = aspect, .amount = numbers.within(amounts, first)};
}

std::vector<ColourChange> draw_colours(const Augment& augment, const DrawnNumbers& numbers) {
  std::array order{ColourAspect::brightness, ColourAspect::contrast, ColourAspect::saturation,
                   ColourAspect::hue};
  constexpr std::int64_t orders = 24;
  for (std::int64_t i = numbers.one_of(orders, number::colour_order); i > 0; --i)
    std::next_permutation(order.begin(), order.end());
  std::vector<ColourChange> changes;
  for (const ColourAspect aspect : order)
    if (const double strength = strength_of(augment, aspect); strength > 0)
      changes.push_back(draw_colour(aspect, strength, numbers));
  return changes;
}

std::string text_of(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

ImageChange draw_change(const Augment& augment, const DrawKey& key, const ImageShape& from,
                        const ImageShape& to) {
  const DrawnNumbers numbers(key);
  ImageChange change;
  if (augment.crop) change.crop = draw_crop(augment, numbers, from);
  if (augment.pad > 0) {
    const std::int64_t places = 2 * augment.pad + 1;
    change.shift_y = numbers.one_of(places, number::shift_down) - augment.pad;
    change.shift_x = numbers.one_of(places, number::shift_right) - augment.pad;
  }
  change.is_flipped = numbers.happens(augment.flip, number::flip);
  change.colours = draw_colours(augment, numbers);
  if (numbers.happens(augment.erase, number::erase)) change.erased = draw_erased(numbers, to);
  return change;
}

std::string augment_in_words(const Augment& augment) {
  std::vector<std::string> parts;
  if (augment.crop)
    parts.push_back("cropped to " + text_of(augment.crop->least) + " to " +
                    text_of(augment.crop->most) + " of their area, " +
                    text_of(augment.ratio.least) + " to " + text_of(augment.ratio.most) +
                    " times as wide as high");
  if (augment.pad > 0)
    parts.push_back("shifted by up to " + std::to_string(augment.pad) + " pixels");
  if (augment.flip > 0) parts.push_back("flipped (" + text_of(augment.flip) + " of them)");
  for (const auto& [name, strength] :
       {std::pair("brightness", augment.brightness), std::pair("contrast", augment.contrast),
        std::pair("saturation", augment.saturation), std::pair("hue", augment.hue)})
    if (strength > 0) parts.push_back(std::string(name) + " changed by up to " + text_of(strength));
  if (augment.erase > 0)
    parts.push_back("a box erased (in " + text_of(augment.erase) + " of them)");
  return listed(parts, "and");
}

}  // namespace accrue::data
