#include "prover.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "accrue/core/error.h"
#include "fit.h"

namespace accrue::proof {
namespace {

/// The fp64 comparison is an arbiter, not a second proof: a few samples do.
constexpr std::int64_t samples_in_double = 8;
/// Fits may leave this many times what the bounds allow, as several passes are combined.
constexpr double fit_allowance = 4;
constexpr double loosest_fit = 0.05;

std::int64_t elements(const NamedParameters& parameters) {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : parameters) count += parameter.tensor.numel();
  return count;
}

Tensors scaled(const Tensors& tensors, double factor) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.to(at::kDouble) * factor);
  return result;
}

}  // namespace

Split even_split(batch::Range samples, std::int64_t micro) {
  return {"micro-batches of " + std::to_string(micro), batch::split(samples, micro)};
}

Split reversed(Split split) {
  std::ranges::reverse(split.parts);
  split.name += ", reversed";
  return split;
}

Split shuffled(Split split, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::ranges::shuffle(split.parts, random);
  split.name += ", shuffled";
  return split;
}

Split uneven_split(batch::Range samples) {
  const std::int64_t total = samples.size();
  // Batch normalisation refuses a part of one value.
  const std::int64_t least = total >= 6 ? 2 : 1;
  Split split{"uneven parts", {}};
  std::int64_t begin = samples.begin;
  for (const std::int64_t share : {2, 4}) {
    const std::int64_t size = std::max(least, share * total / 15);
    if (samples.end - begin <= size) break;
    split.parts.push_back({begin, begin + size});
    begin += size;
  }
  split.parts.push_back({begin, samples.end});
  return split;
}

Findings::Findings(const NamedParameters& parameters) : ratios_(parameters.size(), -1) {
  for (const NamedParameter& parameter : parameters) parameters_.push_back({parameter.name, 0, 0});
}

void Findings::add(const Comparison& comparison) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const double bound = comparison.bound[i] / comparison.scale[i];
    const double error = comparison.error[i] / comparison.scale[i];
    const double ratio = bound > 0 ? error / bound : error == 0 ? 0 : INFINITY;
    if (ratio <= ratios_[i]) continue;
    ratios_[i] = ratio;
    parameters_[i].relative_error = error;
    parameters_[i].bound = bound;
  }
}

void Findings::write(Report& report) const {
  report.parameters = parameters_;
  const ParameterError* largest = nullptr;
  const ParameterError* beyond = nullptr;
  double most = 1;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!largest || parameters_[i].relative_error > largest->relative_error)
      largest = &parameters_[i];
    if (ratios_[i] > most) {
      most = ratios_[i];
      beyond = &parameters_[i];
    }
  }
  if (!largest) return;
  report.equal = beyond == nullptr;
  report.max_relative_error = largest->relative_error;
  report.bound = (beyond ? beyond : largest)->bound;
}

Prover::Prover(Subject& subject, batch::Range samples, int noise_draws, Noise noise)
    : Prover(subject, samples, subject.one_pass(samples, {}), std::move(noise)) {
  if (noise_draws > 0) noise_ = measure_noise(subject_, samples_, reference_, noise_draws);
}

Prover::Prover(Subject& subject, batch::Range samples, Gradients reference, Noise noise)
    : subject_(subject),
      samples_(samples),
      reference_(std::move(reference)),
      noise_(std::move(noise)) {
  if (reference_.weight > 0) return;
  throw usage_error("verify", "a batch in which some term counts", "a total weight of 0",
                    "another batch");
}

SplitResult Prover::check(const Split& split, Findings& findings) {
  return record(split, subject_.accumulated(split.parts, {}), findings);
}

SplitResult Prover::record(const Split& split, const Gradients& accumulated, Findings& findings) {
  const NamedParameters& parameters = subject_.parameters();
  const Comparison comparison = compare(parameters, accumulated, reference_, noise_);
  mean_accumulation_errors_.clear();
  for (const double error : accumulated.accumulation_errors)
    mean_accumulation_errors_.push_back(error / accumulated.weight);
  findings.add(comparison);
  const std::size_t i = comparison.worst();
  const Difference difference = comparison.difference();
  if (difference.ratio > worst_.ratio) {
    worst_ = difference;
    worst_parts_ = split.parts;
    double bounds = 0, norms = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      bounds += std::pow(comparison.bound[p], 2);
      norms += std::pow(l2_norm(reference_.sums[p]) / reference_.weight, 2);
    }
    fit_tolerance_ =
        norms == 0 ? 0 : std::min(loosest_fit, fit_allowance * std::sqrt(bounds / norms));
  }
  return {.name = split.name,
          .samples = samples_.size(),
          .micro_batches = static_cast<std::int64_t>(split.parts.size()),
          .parameter = parameters[i].name,
          .relative_error = comparison.error[i] / comparison.scale[i],
          .bound = comparison.bound[i] / comparison.scale[i],
          .equal = !difference.exceeds()};
}

Difference Prover::repeat() {
  repeated_ =
      compare(subject_.parameters(), subject_.one_pass(samples_, {}), reference_, {}).difference();
  return *repeated_;
}

Difference Prover::differ(Mode mode) {
  const Gradients whole = subject_.one_pass(samples_, {.mode = mode});
  return compare(subject_.parameters(), subject_.accumulated(worst_parts_, {.mode = mode}), whole,
                 noise_)
      .difference();
}

std::vector<Gradients> Prover::gradients_of(const Parts& parts) {
  std::vector<Gradients> gradients;
  for (const batch::Range part : parts) gradients.push_back(subject_.one_pass(part, {}));
  return gradients;
}

void Prover::fit(Observations& seen) {
  const std::vector<Gradients> parts = gradients_of(uneven_split(samples_).parts);
  std::vector<Tensors> sums;
  std::vector<double> weights, ones;
  for (const Gradients& part : parts) {
    sums.push_back(part.sums);
    weights.push_back(part.weight);
    ones.push_back(1);
    seen.weight_of_parts += part.weight;
    seen.loss_sum_of_parts += part.loss_sum;
  }
  if (parts.size() < 2 || elements(subject_.parameters()) <= 2 * std::ssize(parts)) return;
  const Tensors mean = scaled(combination(sums, weights), 1 / seen.weight_of_parts);
  seen.mean_as_sum = fit_multiple(reference_.sums, mean, fit_tolerance_);
  seen.mean_as_sum.matches =
      seen.mean_as_sum.matches && std::abs(seen.mean_as_sum.factor - 1) <= 10 * fit_tolerance_;
  seen.multiple = fit_multiple(reference_.sums, combination(sums, ones), fit_tolerance_);
  seen.parts_add_up =
      seen.multiple.matches && std::abs(seen.multiple.factor - 1) <= 10 * fit_tolerance_;
  seen.span = fit_span(reference_.sums, sums, fit_tolerance_);
}

std::optional<double> Prover::error_in_double() {
  try {
    const std::unique_ptr<Subject> subject = subject_.in_double();
    if (!subject) return std::nullopt;
    const batch::Range few{samples_.begin,
                           std::min(samples_.end, samples_.begin + samples_in_double)};
    const Gradients whole = subject->one_pass(few, {});
    return relative_error(subject->accumulated(uneven_split(few).parts, {}), whole);
  } catch (const std::exception&) {
    // A loss with fp32 tensors of its own: there is no arbiter then.
    return std::nullopt;
  }
}

Diagnosis Prover::explain() {
  Observations seen{.split = worst_};
  seen.repeated = repeated_ ? *repeated_ : repeat();
  if (!worst_.exceeds()) return diagnose(seen);
  seen.weight = reference_.weight;
  seen.loss_sum = reference_.loss_sum;
  seen.dropouts = subject_.dropouts();
  if (subject_.draws_in_order())
    seen.reseeded =
        compare(subject_.parameters(), subject_.one_pass(samples_, {.seed = 2}), reference_, {})
            .difference();
  seen.batch_norms = subject_.batch_norms();
  seen.buffers_moved = subject_.buffers_moved();
  seen.low_precision = subject_.low_precision();
  if (subject_.can(Mode::batch_norms_frozen)) seen.frozen = differ(Mode::batch_norms_frozen);
  if (subject_.can(Mode::evaluation)) seen.evaluation = differ(Mode::evaluation);
  fit(seen);
  seen.relative_error_in_double = error_in_double();
  return diagnose(seen);
}

}  // namespace accrue::proof
