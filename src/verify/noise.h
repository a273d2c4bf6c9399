#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "verify/subject.h"

namespace accrue::proof {

/// Directions in which a fault's part of a difference adds up over the elements of a parameter, and
/// rounding's does not.
enum class Direction : std::size_t {
  gradient,  ///< that of the gradient: a gradient that is scaled
  ones,      ///< all elements alike: a rounding that is not to the nearest
};
inline constexpr std::size_t directions = 2;
/// By Direction.
using Along = std::array<double, directions>;

/// What rounding makes of the mean gradient and the mean loss, as draws have shown it; all zero
/// before the first one.
struct Noise {
  std::vector<double> norm;  ///< L2, per parameter (RoundingTerms::noise / weight)
  std::vector<Along> along;  ///< per parameter, in units of the gradient
  double together = 0;       ///< of all parameters, along the gradient of all
  double loss = 0;           ///< relative
  /// What kernels that round at other places than ATen's operators may add to a gradient, relative
  /// to it and along any direction (Subject::rounds_elsewhere). Draws compare ATen's operators with
  /// themselves, and do not have it.
  double one_way = 0;
  bool any() const { return !norm.empty(); }
};

using ScaledPass = std::function<Gradients(double weighting)>;

/// One draw: every parameter is moved by a unit in the last place, or by the part `least` of itself
/// where that is more, up or down at random by `seed`, the loss is scaled by drawn_scale(seed), and
/// what `pass` gives is compared with `reference`, which it gave before. Raises `noise` to what was
/// found; a parameter whose draw was small by chance is given the usual noise, relative to its
/// gradient. Along a direction it is at least what elements that round independently of one another
/// would make of the draw.
void draw_noise(Noise& noise, const NamedParameters& parameters, const ScaledPass& pass,
                const Gradients& reference, std::uint64_t seed, double least = 0);

/// Components of `difference` along the directions; the gradient's direction is `gradient`'s.
Along components(const at::Tensor& difference, const at::Tensor& gradient);

}  // namespace accrue::proof
