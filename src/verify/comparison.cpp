#include "verify/comparison.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "verify/text.h"

namespace accrue::proof {
namespace {

/// Parameters whose gradient is close to 0 (a bias before a normalisation) are compared relative to
/// this fraction of the usual gradient of an element.
constexpr double vanishing = 1e-3;
/// Independent roundings of n elements add up to 1 / sqrt(n) of their norm along a direction; up to
/// this number of standard deviations counts as rounding.
constexpr double deviations = 6.5;

/// Root mean square over all elements of the mean gradient.
double usual_element(const NamedParameters& parameters, const std::vector<double>& norms) {
  double squares = 0, elements = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    squares += norms[i] * norms[i];
    elements += static_cast<double>(parameters[i].tensor.numel());
  }
  return elements == 0 ? 0 : std::sqrt(squares / elements);
}

constexpr Measure measure_of(std::size_t direction) {
  return static_cast<Direction>(direction) == Direction::gradient ? Measure::gradient
                                                                  : Measure::ones;
}

Evidence relative(double actual, double reference, double bound) {
  const double error = std::abs(actual - reference);
  return {.error = reference == 0 ? error : error / std::abs(reference), .bound = bound};
}

/// Adds up the components of parameters' differences along the gradient of all of them.
class ProjectedDifference {
 public:
  void add(double along, double norm, double bound) {
    dot_ += along * norm;
    squares_ += norm * norm;
    bounds_ += bound * bound * norm * norm;
  }
  ParameterComparison result(double roundoff, const Noise& noise) const {
    ParameterComparison all;
    if (squares_ == 0) return all;
    all.scale = std::sqrt(squares_);
    all.factor = 1 + dot_ / squares_;
    // Rounding in one parameter is independent of that in another, except what draws show and
    // biased rounding.
    all.along.push_back({.error = std::abs(dot_) / all.scale,
                         .bound = std::sqrt(bounds_) / all.scale + 8 * noise.together +
                                  (8 * roundoff + noise.one_way) * all.scale,
                         .measure = Measure::gradient});
    return all;
  }

 private:
  double dot_ = 0, squares_ = 0, bounds_ = 0;
};

class Comparer {
 public:
  Comparer(const NamedParameters& parameters, const Gradients& actual, const Gradients& reference,
           const Noise& noise)
      : parameters_(parameters),
        actual_(actual),
        reference_(reference),
        noise_(noise),
        norms_(mean_norms(reference)),
        usual_(usual_element(parameters, norms_)) {}

  Comparison compared() {
    Comparison result;
    double roundoff = actual_.scaling_roundoff;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      result.parameters.push_back(parameter(i));
      roundoff = std::max(roundoff, unit_roundoff(parameters_[i].tensor.scalar_type()));
    }
    result.together = projected_.result(roundoff, noise_);
    if (!actual_.has_totals) return result;
    result.weight = relative(actual_.weight, reference_.weight, weight_tolerance);
    result.loss =
        relative(actual_.loss_sum / actual_.weight, reference_.loss_sum / reference_.weight,
                 8 * noise_.loss + 64 * roundoff + noise_.one_way);
    return result;
  }

 private:
  ParameterComparison parameter(std::size_t i) {
    const at::Tensor& tensor = parameters_[i].tensor;
    const auto elements = static_cast<double>(tensor.numel());
    const double lost =
        actual_.accumulation_errors.empty() ? 0 : actual_.accumulation_errors[i] / actual_.weight;
    RoundingTerms terms{
        .gradient_norm = norms_[i],
        .accumulation = lost,
        .noise = noise_.any() ? noise_.norm[i] : 0,
        .unit_roundoff = std::max(unit_roundoff(tensor.scalar_type()), actual_.scaling_roundoff)};
    const at::Tensor difference = mean_difference(actual_, reference_, i);
    ParameterComparison result;
    const double scale = std::max(norms_[i], vanishing * usual_ * std::sqrt(elements));
    if (scale > 0) result.scale = scale;
    result.reference_norm = norms_[i];
    result.norm = {.error = l2_norm(difference), .bound = rounding_bound(terms)};
    if (!actual_.sums_are_biased)
      terms.accumulation *= std::min(1.0, deviations / std::sqrt(std::max(1.0, elements)));
    const Along along = components(difference, reference_.sums[i]);
    for (std::size_t d = 0; d < directions; ++d) {
      terms.noise = noise_.any() ? noise_.along[i][d] : 0;
      result.along.push_back({.error = std::abs(along[d]),
                              .bound = rounding_bound(terms) + noise_.one_way * result.scale,
                              .measure = measure_of(d)});
    }
    const double projection = along[static_cast<std::size_t>(Direction::gradient)];
    if (norms_[i] > 0) result.factor = 1 + projection / norms_[i];
    projected_.add(projection, norms_[i], result.along.front().bound);
    return result;
  }

  const NamedParameters& parameters_;
  const Gradients& actual_;
  const Gradients& reference_;
  const Noise& noise_;
  const std::vector<double> norms_;
  const double usual_;
  ProjectedDifference projected_;
};

}  // namespace

double l2_norm(const std::vector<at::Tensor>& tensors) {
  double squares = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) squares += std::pow(l2_norm(tensor), 2);
  return std::sqrt(squares);
}

std::vector<double> mean_norms(const Gradients& gradients) {
  std::vector<double> norms;
  for (const at::Tensor& sum : gradients.sums) norms.push_back(l2_norm(sum) / gradients.weight);
  return norms;
}

at::Tensor mean_difference(const Gradients& actual, const Gradients& reference, std::size_t i) {
  const at::Tensor mean = reference.sums[i].to(actual.sums[i].scalar_type()) / reference.weight;
  return actual.sums[i] / actual.weight - mean;
}

double Evidence::ratio() const {
  if (!std::isfinite(error) || !std::isfinite(bound)) return INFINITY;
  if (bound > 0) return error / bound;
  return error == 0 && bound == 0 ? 0 : INFINITY;
}

const Evidence& ParameterComparison::worst() const {
  const Evidence* worst = &norm;
  for (const Evidence& one : along)
    if (one.ratio() > worst->ratio()) worst = &one;
  return *worst;
}

Evidence ParameterComparison::shown() const {
  Evidence shown = worst().exceeds() ? worst() : norm;
  shown.error = std::isnan(shown.error) ? INFINITY : shown.error / scale;
  shown.bound /= scale;
  return shown;
}

std::size_t Comparison::worst() const {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < parameters.size(); ++i)
    if (parameters[i].worst().ratio() > parameters[worst].worst().ratio()) worst = i;
  return worst;
}

std::size_t Comparison::largest() const {
  std::size_t largest = 0;
  const auto error = [&](std::size_t i) { return parameters[i].norm.error / parameters[i].scale; };
  for (std::size_t i = 1; i < parameters.size(); ++i)
    if (error(i) > error(largest)) largest = i;
  return largest;
}

Difference Comparison::difference() const {
  Difference result;
  const auto take = [&](const Evidence& evidence, double scale) {
    if (evidence.ratio() > result.ratio)
      result = {.relative_error = evidence.error / scale, .ratio = evidence.ratio()};
  };
  for (const ParameterComparison& parameter : parameters) take(parameter.worst(), parameter.scale);
  take(together.worst(), together.scale);
  take(weight, 1);
  take(loss, 1);
  return result;
}

Comparison compare(const NamedParameters& parameters, const Gradients& actual,
                   const Gradients& reference, const Noise& noise) {
  return Comparer(parameters, actual, reference, noise).compared();
}

Comparison compare_closely(const NamedParameters& parameters, Gradients actual,
                           const Gradients& reference) {
  actual.accumulation_errors.resize(actual.sums.size(), 0.0);
  for (std::size_t i = 0; i < actual.sums.size(); ++i)
    actual.accumulation_errors[i] += std::sqrt(reference.terms) / 8 *
                                     unit_roundoff(actual.sums[i].scalar_type()) *
                                     l2_norm(actual.sums[i]);
  return compare(parameters, actual, reference, {});
}

double joint_bound(const Comparison& comparison) {
  double bounds = 0, norms = 0;
  for (const ParameterComparison& parameter : comparison.parameters) {
    bounds += parameter.norm.bound * parameter.norm.bound;
    norms += parameter.reference_norm * parameter.reference_norm;
  }
  return norms == 0 ? 0 : std::sqrt(bounds / norms);
}

LoosestBound loosest_bound(const NamedParameters& parameters, const Comparison& comparison) {
  LoosestBound loosest;
  for (std::size_t i = 0; i < comparison.parameters.size(); ++i) {
    const ParameterComparison& one = comparison.parameters[i];
    if (one.is_faint() || one.reference_norm == 0) continue;
    const double relative = one.norm.bound / one.reference_norm;
    if (relative > loosest.relative) loosest = {parameters[i].name, relative};
  }
  return loosest;
}

std::string what_rounding_may_change(double joint, const LoosestBound& loosest) {
  std::string text = "rounding may change " + number(joint) + " of the gradient";
  if (!loosest.parameter.empty())
    text += ", most in " + loosest.parameter + " (" + number(loosest.relative) + " of its own)";
  return text;
}

bool are_conclusive(const Comparison& comparison) {
  for (const ParameterComparison& one : comparison.parameters)
    if (!one.is_faint() && one.reference_norm > 0 && one.norm.bound >= one.reference_norm)
      return false;
  return joint_bound(comparison) <= most_conclusive_bound;
}

double relative_error(const Gradients& actual, const Gradients& reference) {
  double difference = 0, total = 0;
  for (std::size_t i = 0; i < reference.sums.size(); ++i) {
    difference += std::pow(l2_norm(mean_difference(actual, reference, i)), 2);
    total += std::pow(l2_norm(reference.sums[i]) / reference.weight, 2);
  }
  return difference == 0 ? 0 : std::sqrt(difference / total);
}

}  // namespace accrue::proof
