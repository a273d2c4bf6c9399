#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "verify/subject.h"

namespace accrue::proof {

/// Directions along which the contribution of a fault adds up over the elements of a parameter, and
/// that of rounding does not.
enum class Direction : std::size_t {
  gradient,  ///< that of the gradient: a scaled gradient
  ones,      ///< the vector of ones: a rounding that is not to the nearest
};
inline constexpr std::size_t directions = 2;
/// By Direction.
using Along = std::array<double, directions>;

/// The effect of rounding on the mean gradient and the mean loss, as shown by draws; all zero
/// before the first one.
struct Noise {
  std::vector<double> norm;  ///< L2, per parameter (RoundingTerms::noise / weight)
  std::vector<Along> along;  ///< per parameter, in units of the gradient
  double together = 0;       ///< of all parameters, along the gradient of all
  double loss = 0;           ///< relative
  /// The relative difference, along any direction, that kernels with other rounding places than
  /// ATen's operators may cause in a gradient (Subject::rounds_elsewhere). Draws compare ATen's
  /// operators with themselves, and do not include it.
  double one_way = 0;
  bool any() const { return !norm.empty(); }
};

using ScaledPass = std::function<Gradients(double weighting)>;

/// One draw: every parameter is moved by a unit in the last place, or by the fraction `least` of
/// itself if that is more, up or down at random by `seed`, the loss is scaled by drawn_scale(seed),
/// and the result of `pass` is compared with `reference`, its result before. Raises `noise` to the
/// difference found; a parameter whose draw was small by chance gets the usual noise, relative to
/// its gradient. Along a direction it is at least the effect of independent rounding of the
/// elements in the draw.
void draw_noise(Noise& noise, const NamedParameters& parameters, const ScaledPass& pass,
                const Gradients& reference, std::uint64_t seed, double least = 0);

/// Components of `difference` along the directions; the gradient's direction is `gradient`'s.
Along components(const at::Tensor& difference, const at::Tensor& gradient);

}  // namespace accrue::proof
