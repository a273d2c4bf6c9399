#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/blocks/blocks.h"

namespace accrue::kernels {
namespace {

constexpr int groups = 8, group_size = 32, most_number = 15, most_code = 63;

/// A number n of a group represents step * n - less.
struct Affine {
  float step = 0, less = 0;
};

struct Rounded {
  std::array<int, group_size> numbers;
  double error = 0;  ///< the sum of squared differences
};

Rounded round_to(const float* values, const Affine& affine) {
  Rounded rounded;
  const float inverse = affine.step == 0 ? 0 : 1 / affine.step;
  float error = 0;
  for (int i = 0; i < group_size; ++i) {
    const float wanted = (values[i] + affine.less) * inverse;
    const float number =
        static_cast<float>(static_cast<int>(std::clamp(wanted, 0.0F, float{most_number}) + 0.5F));
    const float difference = affine.step * number - affine.less - values[i];
    rounded.numbers[static_cast<std::size_t>(i)] = static_cast<int>(number);
    error += difference * difference;
  }
  rounded.error = error;
  return rounded;
}

/// The step and the minimum, which is not above 0, with the least error for these numbers.
Affine fitted(const float* values, const std::array<int, group_size>& numbers) {
  double n = 0, nn = 0, x = 0, xn = 0;
  for (int i = 0; i < group_size; ++i) {
    const double number = numbers[static_cast<std::size_t>(i)], value = values[i];
    n += number;
    nn += number * number;
    x += value;
    xn += value * number;
  }
  const double determinant = group_size * nn - n * n;
  if (determinant <= 0) return {};
  const double step = (group_size * xn - n * x) / determinant,
               less = (n * xn - nn * x) / determinant;
  if (less < 0) return {.step = static_cast<float>(std::max(0.0, xn / nn)), .less = 0};
  return {.step = static_cast<float>(std::max(0.0, step)), .less = static_cast<float>(less)};
}

Affine of_range(const float* values) {
  const auto [least, most] = std::minmax_element(values, values + group_size);
  const float lower = std::min(*least, 0.0F);
  return {.step = std::max(*most - lower, 0.0F) / most_number, .less = -lower};
}

/// Tries the range of the values and narrower ones, each of which clips a few values and rounds the
/// others more finely, and keeps the best fit.
Affine searched(const float* values) {
  constexpr std::array shares{1.0F, 0.95F, 0.9F, 0.85F, 0.8F, 0.75F};
  const Affine range = of_range(values);
  Affine best = range;
  double least = round_to(values, range).error;
  for (const float share : shares) {
    const Affine begin{.step = range.step * share, .less = range.less * share};
    const Affine tried = fitted(values, round_to(values, begin).numbers);
    const double error = round_to(values, tried).error;
    if (error >= least) continue;
    least = error;
    best = tried;
  }
  return best;
}

/// A value as an integer from 0 to 63 of steps of `unit`.
int code_of(float value, float unit) {
  if (unit == 0) return 0;
  return std::clamp(static_cast<int>(value / unit + 0.5F), 0, most_code);
}

/// 6 bits each of eight scales and eight minima, as unpack_blocks() reads them.
void put_codes(const std::array<int, groups>& scales, const std::array<int, groups>& minima,
               unsigned char* to) {
  for (std::size_t i = 0; i < 4; ++i) {
    to[i] = static_cast<unsigned char>(scales[i] | (scales[i + 4] >> 4 << 6));
    to[i + 4] = static_cast<unsigned char>(minima[i] | (minima[i + 4] >> 4 << 6));
    to[i + 8] = static_cast<unsigned char>((scales[i + 4] & 15) | ((minima[i + 4] & 15) << 4));
  }
}

void pack_block(const float* values, unsigned char* to) {
  std::array<Affine, groups> wanted;
  Affine largest;
  for (int group = 0; group < groups; ++group) {
    const Affine found = searched(values + group * group_size);
    wanted[static_cast<std::size_t>(group)] = found;
    largest.step = std::max(largest.step, found.step);
    largest.less = std::max(largest.less, found.less);
  }
  const c10::Half step_unit(largest.step / most_code), less_unit(largest.less / most_code);
  std::memcpy(to, &step_unit, sizeof step_unit);
  std::memcpy(to + sizeof step_unit, &less_unit, sizeof less_unit);
  std::array<int, groups> scales{}, minima{};
  for (std::size_t group = 0; group < groups; ++group) {
    scales[group] = code_of(wanted[group].step, step_unit);
    minima[group] = code_of(wanted[group].less, less_unit);
    const Affine stored{.step = static_cast<float>(step_unit) * static_cast<float>(scales[group]),
                        .less = static_cast<float>(less_unit) * static_cast<float>(minima[group])};
    const Rounded rounded = round_to(values + group * group_size, stored);
    unsigned char* numbers = to + 16 + group / 2 * group_size;
    for (std::size_t i = 0; i < group_size; ++i)
      numbers[i] = static_cast<unsigned char>(
          group % 2 == 0 ? rounded.numbers[i] : numbers[i] | (rounded.numbers[i] << 4));
  }
  put_codes(scales, minima, to + 4);
}

}  // namespace

void pack_q4_k(const float* values, std::int64_t count, void* blocks) {
  constexpr BlockSize size = size_of(BlockFormat::q4_k);
  auto* to = static_cast<unsigned char*>(blocks);
  for (std::int64_t block = 0; block < count; ++block, values += size.elements, to += size.bytes)
    pack_block(values, to);
}

}  // namespace accrue::kernels
