#include "verify/power.h"

#include <algorithm>
#include <cmath>

#include "verify/text.h"

namespace accrue::proof {
namespace {

constexpr const char* matrix_scaled = "the gradient of a matrix scaled";
constexpr const char* vector_scaled = "the gradient of a bias or norm scaled";
constexpr const char* all_scaled = "all gradients scaled";
constexpr const char* sample_counted = "a sample counted twice or left out";

bool is_faint(const ParameterComparison& parameter, double norm) { return norm < parameter.scale; }

/// The smallest part of a gradient of that norm that is noticed along itself.
double noticed(const ParameterComparison& parameter, double norm) {
  double bound = parameter.norm.bound;
  for (const Evidence& one : parameter.along)
    if (one.measure == Measure::gradient) bound = std::min(bound, one.bound);
  return bound / norm;
}

double smallest_share(const Comparison& comparison, const Gradients& reference,
                      const Gradients& sample) {
  double least = INFINITY;
  for (std::size_t i = 0; i < sample.sums.size(); ++i) {
    const double difference = l2_norm(mean_difference(sample, reference, i));
    if (difference > 0) least = std::min(least, comparison.parameters[i].norm.bound / difference);
  }
  return least;
}

}  // namespace

std::vector<SmallestFault> smallest_faults(const NamedParameters& parameters,
                                           const Comparison& comparison, const Gradients& reference,
                                           const Gradients& sample) {
  const std::vector<double> norms = mean_norms(reference);
  std::optional<double> matrix, vector;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (is_faint(comparison.parameters[i], norms[i])) continue;
    std::optional<double>& kind = parameters[i].tensor.dim() >= 2 ? matrix : vector;
    kind = std::max(kind.value_or(0), noticed(comparison.parameters[i], norms[i]));
  }
  std::vector<SmallestFault> faults;
  if (matrix) faults.push_back({matrix_scaled, *matrix});
  if (vector) faults.push_back({vector_scaled, *vector});
  if (!comparison.together.along.empty())
    faults.push_back({all_scaled, comparison.together.worst().bound / comparison.together.scale});
  const double share = smallest_share(comparison, reference, sample);
  if (std::isfinite(share)) faults.push_back({sample_counted, share});
  return faults;
}

void sharpen_scaling(std::vector<SmallestFault>& faults, double matrix, double vector) {
  for (SmallestFault& fault : faults) {
    if (fault.kind == matrix_scaled) fault.relative = std::min(fault.relative, matrix);
    if (fault.kind == vector_scaled) fault.relative = std::min(fault.relative, vector);
  }
}

void sharpen(std::vector<SmallestFault>& faults, const std::vector<SmallestFault>& others) {
  for (const SmallestFault& other : others) {
    const auto found = std::ranges::find(faults, other.kind, &SmallestFault::kind);
    if (found == faults.end()) {
      faults.push_back(other);
    } else {
      found->relative = std::min(found->relative, other.relative);
    }
  }
}

void sharpen_samples(std::vector<SmallestFault>& faults, std::vector<SmallestFault> others) {
  std::erase_if(others, [](const SmallestFault& fault) { return fault.kind != sample_counted; });
  sharpen(faults, others);
}

bool are_conclusive(const std::vector<SmallestFault>& faults) {
  return std::ranges::all_of(faults, [](const SmallestFault& fault) {
    return fault.kind == sample_counted || fault.relative <= most_conclusive_fault;
  });
}

std::vector<std::string> parameters_left_out(const NamedParameters& parameters,
                                             const Comparison& comparison,
                                             const Gradients& reference) {
  const std::vector<double> norms = mean_norms(reference);
  std::vector<std::string> unreached, faint;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (norms[i] == 0) {
      unreached.push_back(parameters[i].name);
    } else if (is_faint(comparison.parameters[i], norms[i])) {
      faint.push_back(parameters[i].name);
    }
  std::vector<std::string> left;
  if (!unreached.empty())
    left.push_back("no gradient reaches " + first_names(unreached) + " from these samples");
  if (!faint.empty())
    left.push_back("the gradient of " + first_names(faint) +
                   " all but vanishes, so that a fault in it shows only if it is large");
  return left;
}

}  // namespace accrue::proof
