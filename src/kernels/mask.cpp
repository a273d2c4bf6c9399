#include "kernels/mask.h"

#include <cmath>

#include "core/rng.h"

namespace accrue::kernels {
namespace {

constexpr std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

/// A mask whose key and tweak are the words that Philox computes from a longer name.
DropoutMask keyed_by(const std::array<std::uint32_t, 4>& words, const DropoutMask& other) {
  DropoutMask mask = other;
  mask.key = {words[0], words[1]};
  mask.tweak = {words[2], words[3]};
  return mask;
}

}  // namespace

// Seed, window, site, sample, head and position together are longer than Philox's key and counter:
// everything except the position is the input of a Philox call that gives the key.
DropoutMask sample_mask(const DropoutSite& use, std::int64_t sample) {
  const auto window = static_cast<std::uint64_t>(use.window);
  const auto site = static_cast<std::uint64_t>(use.site);
  const auto id = static_cast<std::uint64_t>(sample);
  const auto own =
      philox({low(window), high(window), low(site), high(site)}, {low(use.seed), high(use.seed)});
  DropoutMask mask;
  mask.last_dropped = static_cast<std::uint32_t>(std::ceil(use.probability * 0x1p32) - 1);
  mask.scale = 1 / (1 - use.probability);
  return keyed_by(philox({low(id), high(id), own[2], own[3]}, {own[0], own[1]}), mask);
}

DropoutMask head_mask(const DropoutMask& sample, std::int64_t head) {
  const auto index = static_cast<std::uint64_t>(head);
  return keyed_by(philox({low(index), high(index), sample.tweak[0], sample.tweak[1]}, sample.key),
                  sample);
}

}  // namespace accrue::kernels
