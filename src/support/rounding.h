#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "accrue/core/parameter.h"

namespace accrue {

/// u of a dtype: half the distance from 1 to the next number.
inline double unit_roundoff(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 0x1p-53;
    case at::kBFloat16:
      return 0x1p-8;
    case at::kHalf:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

inline double l2_norm(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor.detach(), 2, {}, false, at::kDouble).item<double>();
}

/// Moves every element by a unit in the last place or by `least` of it, up or down at random.
inline void perturb(const NamedParameters& parameters, std::uint64_t seed, double least = 0) {
  const at::NoGradGuard no_grad;
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    const double unit = std::max(2 * unit_roundoff(tensor.scalar_type()), least);
    // Drawn in host memory, so that every device has the same numbers.
    const at::Tensor factor = at::empty_like(tensor, tensor.options().device(at::kCPU))
                                  .bernoulli_(0.5, generator)
                                  .mul_(2 * unit)
                                  .add_(1 - unit);
    at::Tensor(tensor).mul_(factor.to(tensor.device()));
  }
}

/// Between 1/2 and 1, exact in every dtype, and not a power of two: if a loss is scaled by it,
/// every product and every partial sum of its backward pass is rounded differently. It has 8
/// significant bits, as many as bf16; 37 is coprime to 64, so 64 draws differ.
inline double drawn_scale(std::uint64_t seed) {
  return static_cast<double>(129 + 2 * (37 * seed % 64)) / 256;
}

/// Raises noise that was small by chance to its usual value (the median) relative to the norms of
/// the gradients.
inline void raise_to_usual(std::vector<double>& noise, const std::vector<double>& norms) {
  std::vector<double> relative;
  for (std::size_t i = 0; i < noise.size(); ++i)
    if (norms[i] > 0) relative.push_back(noise[i] / norms[i]);
  if (relative.empty()) return;
  const auto middle = relative.begin() + std::ssize(relative) / 2;
  std::nth_element(relative.begin(), middle, relative.end());
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = std::max(noise[i], *middle * norms[i]);
}

/// The terms of the rounding error of a parameter's gradient. Norms are L2, of gradients of the sum
/// of losses.
struct RoundingTerms {
  double gradient_norm = 0;  ///< of one pass
  /// The error of adding up the micro-batches: the running error bound, u_acc times the sum over
  /// micro-batches of the norm of the sum so far (Higham, "Accuracy and Stability of Numerical
  /// Algorithms", 2002, section 4.3), or the equivalent for the accumulation's precision.
  double accumulation = 0;
  /// The largest change of the one-pass gradient when every parameter moves by one unit in the last
  /// place, up or down at random, and the loss is scaled, so that every sum of the backward pass
  /// rounds differently: the effect of rounding in forward and backward.
  double noise = 0;
  double unit_roundoff = 0;  ///< u of the parameter's dtype
};

/// 8 noise + 4 accumulation + 8 u gradient_norm (docs/numerics.md, "verify's bound").
inline double rounding_bound(const RoundingTerms& terms) {
  // Both sides round, so on average their difference is below twice the noise. One or two draws may
  // have come out at a quarter of the usual value, so 8. A sum may be rounded several times within
  // one product that adds into it, so 4 times its error; and each side rounds its result a few
  // times, so 8 u.
  return 8 * terms.noise + 4 * terms.accumulation + 8 * terms.unit_roundoff * terms.gradient_norm;
}

}  // namespace accrue
