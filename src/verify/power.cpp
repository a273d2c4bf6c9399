#include "verify/power.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/words.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

constexpr const char* matrix_scaled = "the gradient of a matrix scaled";
constexpr const char* vector_scaled = "the gradient of a bias or norm scaled";
constexpr const char* all_scaled = "all gradients scaled";
constexpr const char* sample_counted = "a sample counted twice or left out";
constexpr const char* micro_batch_counted = "a micro-batch counted twice or left out in the sum";

/// The smallest fraction of its gradient that is detected along itself.
double noticed(const ParameterComparison& parameter) {
  double bound = parameter.norm.bound;
  for (const Evidence& one : parameter.along)
    if (one.measure == Measure::gradient) bound = std::min(bound, one.bound);
  return bound / parameter.reference_norm;
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

const SmallestFault* find(const std::vector<SmallestFault>& faults, std::string_view kind) {
  const auto found = std::ranges::find(faults, kind, &SmallestFault::kind);
  return found == faults.end() ? nullptr : &*found;
}

/// Infinite if a link is missing.
double weakest_link(const Power& power, std::string_view kind) {
  double weakest = 0;
  for (const auto* link : {&power.operations, &power.slots, &power.sums}) {
    const SmallestFault* const fault = find(*link, kind);
    weakest = std::max(weakest, fault ? fault->relative : INFINITY);
  }
  return weakest;
}

bool is_scaled(const SmallestFault& fault) {
  return fault.kind == matrix_scaled || fault.kind == vector_scaled || fault.kind == all_scaled;
}

/// Whether `name` is the factor A of an adapter whose factor B is 0, so that its gradient is
/// exactly 0. PEFT may have the adapter's name behind "lora_A".
bool waits_for_factor_b(const NamedParameters& parameters, std::string name) {
  constexpr std::string_view factor_a = ".lora_A.", factor_b = ".lora_B.";
  const std::size_t at = name.rfind(factor_a);
  if (at == std::string::npos) return false;
  name.replace(at, factor_a.size(), factor_b);
  const auto other = std::ranges::find(parameters, name, &NamedParameter::name);
  return other != parameters.end() && other->tensor.count_nonzero().item<std::int64_t>() == 0;
}

}  // namespace

std::vector<SmallestFault> smallest_faults(const NamedParameters& parameters,
                                           const Comparison& comparison, const Gradients& reference,
                                           const Gradients& sample) {
  std::optional<double> matrix, vector;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterComparison& one = comparison.parameters[i];
    if (one.is_faint()) continue;
    std::optional<double>& kind = parameters[i].tensor.dim() >= 2 ? matrix : vector;
    kind = std::max(kind.value_or(0), noticed(one));
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

std::vector<SmallestFault> scaled_faults(double matrix, double vector) {
  return {{matrix_scaled, matrix}, {vector_scaled, vector}};
}

std::vector<SmallestFault> smallest_faults_of(const Power& power) {
  std::vector<SmallestFault> faults = power.window;
  for (SmallestFault& fault : faults)
    if (fault.kind == matrix_scaled || fault.kind == vector_scaled)
      fault.relative = std::min(fault.relative, weakest_link(power, fault.kind));
  if (const SmallestFault* of_sums = find(power.sums, sample_counted))
    faults.push_back({micro_batch_counted, of_sums->relative});
  faults.insert(faults.end(), power.steps.begin(), power.steps.end());
  return faults;
}

double largest_scaled(const std::vector<SmallestFault>& faults) {
  double largest = 0;
  for (const SmallestFault& fault : faults)
    if (is_scaled(fault)) largest = std::max(largest, fault.relative);
  return largest;
}

bool are_conclusive(const std::vector<SmallestFault>& faults) {
  // NaN proves nothing: it is not at most anything.
  return std::ranges::all_of(faults, [](const SmallestFault& fault) {
    return !is_scaled(fault) || fault.relative <= most_conclusive_fault;
  });
}

std::vector<std::string> parameters_left_out(const NamedParameters& parameters,
                                             const Comparison& comparison) {
  std::vector<std::string> unreached, faint;
  std::int64_t waiting = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterComparison& one = comparison.parameters[i];
    const bool is_unreached = one.reference_norm == 0;
    if (is_unreached && waits_for_factor_b(parameters, parameters[i].name))
      ++waiting;
    else if (is_unreached)
      unreached.push_back(parameters[i].name);
    else if (one.is_faint())
      faint.push_back(parameters[i].name);
  }
  std::vector<std::string> left;
  if (waiting > 0)
    left.push_back("the gradient of " + counted(waiting, "lora_A factor") +
                   ": it is exactly 0 as long as their lora_B is 0, which is normal at the start");
  if (!unreached.empty())
    left.push_back("no gradient reaches " + first_names(unreached) + " from these samples");
  if (!faint.empty())
    left.push_back("the gradient of " + first_names(faint) +
                   " all but vanishes, so that a fault in it shows only if it is large");
  return left;
}

}  // namespace accrue::proof
