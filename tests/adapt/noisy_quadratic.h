#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "accrue/adapt/noise_scale.h"

namespace accrue::adapt {

/// Windows of four micro-batches on the quadratic with gradient G, whose samples' gradients are
/// normally distributed around it, in odd coordinates with three times the variance of even ones
/// (as many). tr(Sigma) is 1 per unit of weight, and |G|^2 such that the noise scale is `scale`.
class NoisyQuadratic {
 public:
  NoisyQuadratic(std::uint64_t seed, std::size_t dimensions, double scale)
      : random_(seed), dimensions_(dimensions), gradient_(std::sqrt(1 / scale / count())) {}

  /// A window of `batch`, in which the micro-batches have these shares. The parts are the first
  /// micro-batch of each of two ranks.
  NoiseSample window(double batch, const std::array<double, 4>& shares = {.25, .25, .25, .25}) {
    NoiseSample sample{.weight = batch};
    for (const std::size_t part : parts)
      sample.part_inverse_weight += 1 / (shares[part] * batch) / parts.size();
    for (std::size_t i = 0; i < dimensions_; ++i) {
      double mean = 0;
      std::array<double, 4> micro_batches;
      for (std::size_t j = 0; j < shares.size(); ++j) {
        micro_batches[j] = component(i, shares[j] * batch);
        mean += shares[j] * micro_batches[j];
      }
      sample.squared_norm += mean * mean;
      for (const std::size_t part : parts)
        sample.part_squared_norm += micro_batches[part] * micro_batches[part] / parts.size();
    }
    return sample;
  }

 private:
  static constexpr std::array<std::size_t, 2> parts{0, 2};

  double count() const { return static_cast<double>(dimensions_); }

  /// One component of the mean gradient of `weight`.
  double component(std::size_t i, double weight) {
    const double variance = (i % 2 == 0 ? 0.5 : 1.5) / count();
    return gradient_ + std::sqrt(variance / weight) * normal_(random_);
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::size_t dimensions_;
  double gradient_;
};

}  // namespace accrue::adapt
