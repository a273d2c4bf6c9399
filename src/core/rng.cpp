#include "core/rng.h"

#include <Random123/philox.h>

#include <bit>
#include <cmath>
#include <numbers>

namespace accrue {
namespace {

constexpr std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

double to_unit(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1.0p-53; }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  const r123::Philox4x32::ctr_type c{{counter[0], counter[1], counter[2], counter[3]}};
  const r123::Philox4x32::key_type k{{key[0], key[1]}};
  const auto r = r123::Philox4x32{}(c, k);
  return {r[0], r[1], r[2], r[3]};
}

std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto r =
      philox({low(index), high(index), low(stream), high(stream)}, {low(seed), high(seed)});
  return (static_cast<std::uint64_t>(r[1]) << 32) | r[0];
}

double random_unit(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return to_unit(random_word(seed, stream, index));
}

void fill_normal(std::span<float> out, std::uint64_t seed, std::uint64_t stream,
                 std::uint64_t first) {
  for (std::size_t i = 0; i < out.size(); i += 2) {
    const std::uint64_t index = first + i;
    // 1 - u is in (0, 1], so the logarithm is finite.
    const double radius = std::sqrt(-2.0 * std::log(1.0 - random_unit(seed, stream, index)));
    const double angle = 2.0 * std::numbers::pi * random_unit(seed, stream, index + 1);
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream)
    : size_(size),
      half_bits_((static_cast<std::uint32_t>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2),
      key_{low(seed), high(seed) ^ high(stream)},
      tweak_(low(stream)) {}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < 4; ++round) {
    const auto mixed = philox({low(right), high(right), tweak_, round}, key_);
    const std::uint64_t next =
        left ^ (((static_cast<std::uint64_t>(mixed[1]) << 32) | mixed[0]) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  std::uint64_t value = encrypt(position);
  while (value >= size_) value = encrypt(value);
  return value;
}

}  // namespace accrue
