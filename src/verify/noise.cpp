#include "verify/noise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "verify/comparison.h"

namespace accrue::proof {
namespace {

/// The number of elements converted to fp64 at a time.
constexpr std::int64_t piece = 1 << 20;

/// Sums function(a, b) over pieces of both, flat and in fp64.
template <class Function>
double summed(const at::Tensor& a, const at::Tensor& b, Function function) {
  const at::Tensor x = a.reshape({-1}), y = b.reshape({-1});
  double sum = 0;
  for (std::int64_t begin = 0; begin < x.numel(); begin += piece) {
    const std::int64_t count = std::min(piece, x.numel() - begin);
    sum += function(x.narrow(0, begin, count).to(at::kDouble),
                    y.narrow(0, begin, count).to(at::kDouble));
  }
  return sum;
}

/// The components of independent roundings with the size of `difference`'s elements.
Along independent_components(const at::Tensor& difference, const at::Tensor& gradient) {
  const double size = l2_norm(gradient);
  const double squares = summed(difference, gradient, [](const at::Tensor& d, const at::Tensor& g) {
    return (d * g).square_().sum().item<double>();
  });
  return {size > 0 ? std::sqrt(squares) / size : 0,
          l2_norm(difference) / std::sqrt(double(std::max<std::int64_t>(1, difference.numel())))};
}

double mean_loss(const Gradients& gradients) { return gradients.loss_sum / gradients.weight; }

}  // namespace

Along components(const at::Tensor& difference, const at::Tensor& gradient) {
  const double size = l2_norm(gradient);
  const double along = summed(difference, gradient, [](const at::Tensor& d, const at::Tensor& g) {
    return at::dot(d, g).item<double>();
  });
  const double ones = difference.sum(at::kDouble).item<double>();
  return {size > 0 ? along / size : 0,
          ones / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, difference.numel())))};
}

void draw_noise(Noise& noise, const NamedParameters& parameters, const ScaledPass& pass,
                const Gradients& reference, std::uint64_t seed, double least) {
  const KeepParameters keep(parameters);
  perturb(parameters, seed, least);
  const Gradients moved = pass(drawn_scale(seed));
  noise.norm.resize(parameters.size(), 0.0);
  noise.along.resize(parameters.size(), Along{});
  const std::vector<double> norms = mean_norms(reference);
  double dot = 0, squares = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor difference = mean_difference(moved, reference, i);
    const at::Tensor& gradient = reference.sums[i];
    noise.norm[i] = std::max(noise.norm[i], l2_norm(difference));
    const Along seen = components(difference, gradient);
    const Along independent = independent_components(difference, gradient);
    for (std::size_t d = 0; d < directions; ++d)
      noise.along[i][d] = std::max({noise.along[i][d], std::abs(seen[d]), independent[d]});
    dot += seen[static_cast<std::size_t>(Direction::gradient)] * norms[i];
    squares += norms[i] * norms[i];
  }
  if (squares > 0) noise.together = std::max(noise.together, std::abs(dot) / std::sqrt(squares));
  raise_to_usual(noise.norm, norms);
  const double loss = mean_loss(reference);
  if (loss != 0)
    noise.loss = std::max(noise.loss, std::abs(mean_loss(moved) - loss) / std::abs(loss));
}

}  // namespace accrue::proof
