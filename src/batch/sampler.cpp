#include "batch/sampler.h"

#include <string>

#include "accrue/core/error.h"
#include "core/rng.h"

namespace accrue::batch {
namespace {

// Epochs are streams of the run's seed; the tag ("SHUF") keeps them apart from its other uses.
constexpr std::uint64_t epoch_streams = std::uint64_t{0x53485546} << 32;

}  // namespace

Sampler::Sampler(std::int64_t size, Order order, std::uint64_t seed)
    : size_(size), order_(order), seed_(seed) {
  if (size < 1) {
    throw usage_error("sample data", "at least one sample per epoch", std::to_string(size),
                      "more data or a shorter context");
  }
}

std::int64_t Sampler::sample(std::int64_t ordinal) const {
  if (ordinal < 0) {
    throw usage_error("sample data", "a draw ordinal of 0 or more", std::to_string(ordinal),
                      "epoch * size + position");
  }
  const std::int64_t epoch = ordinal / size_;
  const std::int64_t position = ordinal % size_;
  if (order_ == Order::sequential) return position;
  const Permutation permutation(static_cast<std::uint64_t>(size_), seed_,
                                epoch_streams + static_cast<std::uint64_t>(epoch));
  return static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(position)));
}

}  // namespace accrue::batch
