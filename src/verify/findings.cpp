#include "verify/findings.h"

#include <algorithm>
#include <cmath>

namespace accrue::proof {
namespace {

constexpr const char* all_together = "all parameters together";

/// The worst result that no single parameter shows.
struct Common {
  const char* name;
  Evidence evidence;
};

Common common_of(const Comparison& comparison) {
  Common worst{all_together, comparison.together.worst()};
  worst.evidence.error /= comparison.together.scale;
  worst.evidence.bound /= comparison.together.scale;
  for (const Common& other :
       {Common{"the total weight", comparison.weight}, Common{"the mean loss", comparison.loss}})
    if (other.evidence.ratio() > worst.evidence.ratio()) worst = other;
  return worst;
}

}  // namespace

Findings::Findings(const NamedParameters& parameters) : ratios_(parameters.size(), -1) {
  for (const NamedParameter& parameter : parameters) parameters_.push_back({parameter.name, 0, 0});
}

void Findings::add(const Comparison& comparison) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Evidence shown = comparison.parameters[i].shown();
    if (shown.ratio() <= ratios_[i]) continue;
    ratios_[i] = shown.ratio();
    parameters_[i].relative_error = shown.error;
    parameters_[i].bound = shown.bound;
  }
  const Common common = common_of(comparison);
  if (common.evidence.ratio() > beyond_.ratio()) beyond_ = common.evidence;
}

bool Findings::exceed() const {
  return beyond_.exceeds() || std::ranges::any_of(ratios_, [](double ratio) { return ratio > 1; });
}

void Findings::write(Report& report) const {
  report.parameters = parameters_;
  report.equal = !exceed();
  const auto largest = std::ranges::max_element(parameters_, {}, &ParameterError::relative_error);
  if (largest == parameters_.end()) return;
  report.max_relative_error = largest->relative_error;
  report.bound = largest->bound;
  if (report.equal) return;
  const auto worst = std::ranges::max_element(ratios_) - ratios_.begin();
  if (ratios_[static_cast<std::size_t>(worst)] > 1) {
    report.bound = parameters_[static_cast<std::size_t>(worst)].bound;
    return;
  }
  report.max_relative_error = beyond_.error;
  report.bound = beyond_.bound;
}

SplitResult result_of(const std::string& name, std::int64_t samples, std::int64_t micro_batches,
                      const NamedParameters& parameters, const Comparison& comparison) {
  const std::size_t i = comparison.worst(), largest = comparison.largest();
  const Evidence most = comparison.parameters[i].shown();
  const ParameterComparison& big = comparison.parameters[largest];
  SplitResult result{.name = name,
                     .samples = samples,
                     .micro_batches = micro_batches,
                     .parameter = parameters[i].name,
                     .relative_error = most.error,
                     .bound = most.bound,
                     .largest_error = big.norm.error / big.scale,
                     .largest_bound = big.norm.bound / big.scale,
                     .equal = !comparison.exceeds()};
  const Common common = common_of(comparison);
  if (!common.evidence.exceeds() || most.ratio() > 1) return result;
  result.parameter = common.name;
  result.relative_error = common.evidence.error;
  result.bound = common.evidence.bound;
  return result;
}

}  // namespace accrue::proof
