#include "batch/sampler.h"

#include <string>

#include "accrue/core/error.h"
#include "core/rng.h"

namespace accrue::batch {
namespace {

// Epochs are streams of the run's seed, and so are the parts' seeds; the tags ("SHUF", "PART")
// separate them from its other uses.
constexpr std::uint64_t epoch_streams = std::uint64_t{0x53485546} << 32;
constexpr std::uint64_t part_stream = std::uint64_t{0x50415254} << 32;

/// Parts of equal size are shuffled in different orders; the first is as if it were alone.
std::uint64_t seed_of_part(std::uint64_t seed, std::size_t part) {
  return part == 0 ? seed : random_word(seed, part_stream, part);
}

std::vector<double> weights_of(const std::vector<WeightedPart>& parts) {
  std::vector<double> weights;
  for (const WeightedPart& part : parts) weights.push_back(part.weight);
  return weights;
}

}  // namespace

Sampler::Sampler(std::int64_t size, Order order, std::uint64_t seed)
    : Sampler({{.size = size}}, order, seed) {}

Sampler::Sampler(const std::vector<WeightedPart>& parts, Order order, std::uint64_t seed)
    : order_(order) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t size = parts[i].size;
    if (size < 1) {
      throw usage_error("sample data", "at least one sample per epoch", std::to_string(size),
                        "more data or a shorter context");
    }
    parts_.push_back({.begin = size_, .size = size, .seed = seed_of_part(seed, i)});
    size_ += size;
  }
  if (parts_.size() != 1) turns_ = std::make_shared<const Interleaving>(weights_of(parts));
}

std::int64_t Sampler::sample(std::int64_t ordinal) const {
  if (ordinal < 0) {
    throw usage_error("sample data", "a draw ordinal of 0 or more", std::to_string(ordinal),
                      "epoch * size + position");
  }
  if (!turns_) return sample_of(parts_.front(), ordinal);
  const Interleaving::Turn turn = turns_->turn(ordinal);
  return sample_of(parts_[turn.source], turn.number);
}

std::int64_t Sampler::sample_of(const Part& part, std::int64_t number) const {
  const std::int64_t pass = number / part.size;
  const std::int64_t position = number % part.size;
  if (order_ == Order::sequential) return part.begin + position;
  const Permutation permutation(static_cast<std::uint64_t>(part.size), part.seed,
                                epoch_streams + static_cast<std::uint64_t>(pass));
  return part.begin + static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(position)));
}

std::int64_t Sampler::draws_of(std::size_t part, std::int64_t draws) const {
  return turns_ ? turns_->count(part, draws) : draws;
}

}  // namespace accrue::batch
