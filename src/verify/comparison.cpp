#include "verify/comparison.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "verify/bound.h"

namespace accrue::proof {
namespace {

/// Parameters whose gradient all but vanishes (a bias in front of a normalisation) are judged
/// relative to this part of what an element's gradient usually is.
constexpr double vanishing = 1e-3;

at::Tensor mean_difference(const Gradients& actual, const Gradients& reference, std::size_t i) {
  const at::Tensor mean = reference.sums[i].to(actual.sums[i].scalar_type()) / reference.weight;
  return actual.sums[i] / actual.weight - mean;
}

/// Root mean square over all elements of the mean gradient.
double usual_element(const NamedParameters& parameters, const std::vector<double>& norms) {
  double squares = 0, elements = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    squares += norms[i] * norms[i];
    elements += static_cast<double>(parameters[i].tensor.numel());
  }
  return elements == 0 ? 0 : std::sqrt(squares / elements);
}

std::vector<double> mean_norms(const Gradients& gradients) {
  std::vector<double> norms;
  for (const at::Tensor& sum : gradients.sums) norms.push_back(l2_norm(sum) / gradients.weight);
  return norms;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void raise_to_usual(Noise& noise, const std::vector<double>& norms) {
  std::vector<double> relative;
  for (std::size_t i = 0; i < noise.size(); ++i)
    if (norms[i] > 0) relative.push_back(noise[i] / norms[i]);
  const double usual = median(std::move(relative));
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = std::max(noise[i], usual * norms[i]);
}

}  // namespace

double unit_roundoff(at::ScalarType dtype) {
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

double l2_norm(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor.detach(), 2, {}, false, at::kDouble).item<double>();
}

std::size_t Comparison::worst() const {
  std::size_t worst = 0;
  double most = -1;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double ratio = bound[i] > 0 ? error[i] / bound[i] : error[i] > 0 ? INFINITY : 0;
    if (std::isnan(ratio)) return i;
    if (ratio > most) {
      most = ratio;
      worst = i;
    }
  }
  return worst;
}

std::size_t Comparison::largest() const {
  std::size_t largest = 0;
  for (std::size_t i = 1; i < error.size(); ++i)
    if (relative_error(i) > relative_error(largest)) largest = i;
  return largest;
}

Difference Comparison::difference() const {
  if (error.empty()) return {};
  const std::size_t i = worst();
  const double ratio = bound[i] > 0 ? error[i] / bound[i] : error[i] == 0 ? 0 : INFINITY;
  return {.relative_error = relative_error(i), .ratio = ratio};
}

Gradients Subject::in_passes(const Parts& parts, const Conditions& conditions) {
  if (parts.size() == 1) return one_pass(parts.front(), conditions);
  return accumulated(parts, conditions);
}

double drawn_scale(std::uint64_t seed) {
  // 8 significant bits, which is what bf16 holds; 37 is prime to 64, so that 64 draws differ.
  return static_cast<double>(129 + 2 * (37 * seed % 64)) / 256;
}

void draw_noise(Noise& noise, const NamedParameters& parameters, const ScaledPass& pass,
                const Gradients& reference, std::uint64_t seed) {
  const KeepParameters keep(parameters);
  perturb(parameters, seed);
  const Gradients moved = pass(drawn_scale(seed));
  noise.resize(parameters.size(), 0.0);
  for (std::size_t i = 0; i < noise.size(); ++i)
    noise[i] = std::max(noise[i], l2_norm(mean_difference(moved, reference, i)));
  raise_to_usual(noise, mean_norms(reference));
}

Comparison compare(const NamedParameters& parameters, const Gradients& actual,
                   const Gradients& reference, const Noise& noise) {
  const std::vector<double> norms = mean_norms(reference);
  const double usual = usual_element(parameters, norms);
  Comparison result;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::ScalarType dtype = parameters[i].tensor.scalar_type();
    const auto elements = static_cast<double>(parameters[i].tensor.numel());
    const double scale = std::max(norms[i], vanishing * usual * std::sqrt(elements));
    result.scale.push_back(scale > 0 ? scale : 1);
    result.error.push_back(l2_norm(mean_difference(actual, reference, i)));
    const double lost = actual.accumulation_errors.empty() ? 0 : actual.accumulation_errors[i];
    result.bound.push_back(rounding_bound({.gradient_norm = norms[i],
                                           .accumulation = lost / actual.weight,
                                           .noise = noise.empty() ? 0 : noise[i],
                                           .unit_roundoff = unit_roundoff(dtype)}));
  }
  return result;
}

double joint_bound(const Comparison& comparison, const Gradients& reference) {
  double bounds = 0, norms = 0;
  for (const double bound : comparison.bound) bounds += bound * bound;
  for (const double norm : mean_norms(reference)) norms += norm * norm;
  return norms == 0 ? 0 : std::sqrt(bounds / norms);
}

double relative_error(const Gradients& actual, const Gradients& reference) {
  double difference = 0, total = 0;
  for (std::size_t i = 0; i < reference.sums.size(); ++i) {
    difference += std::pow(l2_norm(mean_difference(actual, reference, i)), 2);
    total += std::pow(l2_norm(reference.sums[i]) / reference.weight, 2);
  }
  return difference == 0 ? 0 : std::sqrt(difference / total);
}

void perturb(const NamedParameters& parameters, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    const double unit = 2 * unit_roundoff(tensor.scalar_type());
    const at::Tensor factor =
        at::empty_like(tensor).bernoulli_(0.5, generator).mul_(2 * unit).add_(1 - unit);
    at::Tensor(tensor).mul_(factor);
  }
}

}  // namespace accrue::proof
