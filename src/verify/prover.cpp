#include "verify/prover.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "accrue/core/error.h"
#include "verify/fit.h"

namespace accrue::proof {
namespace {

/// Fits may leave this many times what the bounds allow, as several passes are combined.
constexpr double fit_allowance = 4;
constexpr double loosest_fit = 0.05;
/// Rounding is drawn at most so often before a difference counts.
constexpr int most_further_draws = 16;
/// The part of a difference that may be left where a mode has taken its cause away.
constexpr double may_be_kinks = 0.01;
/// Fits by any combination keep the gradients of all parts.
constexpr std::size_t most_combined = 16;

std::int64_t elements(const NamedParameters& parameters) {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : parameters) count += parameter.tensor.numel();
  return count;
}

Parts clipped(const Parts& parts, batch::Range to) {
  Parts result;
  for (const batch::Range part : parts) {
    const batch::Range rest{std::max(part.begin, to.begin), std::min(part.end, to.end)};
    if (rest.begin < rest.end) result.push_back(rest);
  }
  return result;
}

void add(Tensors& total, const Tensors& terms, double factor) {
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (total.size() <= i) total.push_back(at::zeros_like(terms[i], at::kDouble));
    total[i].add_(terms[i].to(at::kDouble), factor);
  }
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
    const double bound = comparison.relative_bound(i);
    const double error = comparison.relative_error(i);
    const double ratio = bound > 0 ? error / bound : error == 0 ? 0 : INFINITY;
    if (ratio <= ratios_[i]) continue;
    ratios_[i] = ratio;
    parameters_[i].relative_error = error;
    parameters_[i].bound = bound;
  }
}

bool Findings::exceed() const {
  return std::ranges::any_of(ratios_, [](double ratio) { return ratio > 1; });
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

Prover::Prover(Subject& subject, batch::Range samples, int noise_draws)
    : Prover(subject, Parts{samples}, subject.one_pass(samples, {}), {}) {
  for (int i = 0; i < noise_draws; ++i) draw();
}

Prover::Prover(Subject& subject, Parts passes, Gradients reference, Noise noise)
    : subject_(subject),
      samples_{passes.front().begin, passes.back().end},
      passes_(std::move(passes)),
      reference_(std::move(reference)),
      noise_(std::move(noise)),
      further_draws_(most_further_draws) {
  if (reference_.weight > 0) return;
  throw usage_error("verify", "a batch in which some term counts", "a total weight of 0",
                    "another batch");
}

void Prover::draw() {
  const auto pass = [this](double weighting) {
    return subject_.in_passes(passes_, {.weighting = weighting});
  };
  draw_noise(noise_, subject_.parameters(), pass, reference_, ++draws_);
}

double Prover::fit_tolerance() const { return std::min(loosest_fit, fit_allowance * joint_bound_); }

SplitResult Prover::check(const Split& split, Findings& findings) {
  return record(split, subject_.accumulated(split.parts, {}), findings);
}

bool Prover::may_be_rounding(const Gradients& accumulated, const Parts& parts) {
  if (parts.empty()) return true;
  const std::optional<double> in_double = error_in_double(parts);
  return !in_double || *in_double <= shrunk_in_double * relative_error(accumulated, reference_);
}

Comparison Prover::judge(const Gradients& accumulated, const Parts& parts) {
  const NamedParameters& parameters = subject_.parameters();
  Comparison comparison = compare(parameters, accumulated, reference_, noise_);
  if (!comparison.difference().exceeds() || !may_be_rounding(accumulated, parts)) return comparison;
  for (; comparison.difference().exceeds() && further_draws_ > 0; --further_draws_) {
    draw();
    comparison = compare(parameters, accumulated, reference_, noise_);
  }
  return comparison;
}

SplitResult Prover::record(const Split& split, const Gradients& accumulated, Findings& findings) {
  const NamedParameters& parameters = subject_.parameters();
  const Comparison comparison = judge(accumulated, split.parts);
  mean_accumulation_errors_.clear();
  for (const double error : accumulated.accumulation_errors)
    mean_accumulation_errors_.push_back(error / accumulated.weight);
  findings.add(comparison);
  const std::size_t i = comparison.worst(), largest = comparison.largest();
  const Difference difference = comparison.difference();
  if (difference.ratio > worst_.ratio) {
    worst_ = difference;
    worst_parts_ = split.parts;
    worst_name_ = split.name;
    joint_bound_ = proof::joint_bound(comparison, reference_);
  }
  return {.name = split.name,
          .samples = samples_.size(),
          .micro_batches = static_cast<std::int64_t>(split.parts.size()),
          .parameter = parameters[i].name,
          .relative_error = comparison.relative_error(i),
          .bound = comparison.relative_bound(i),
          .largest_error = comparison.relative_error(largest),
          .largest_bound = comparison.relative_bound(largest),
          .equal = !difference.exceeds()};
}

Difference Prover::repeat() {
  repeated_ =
      compare(subject_.parameters(), subject_.one_pass(samples_, {}), reference_, {}).difference();
  return *repeated_;
}

Difference Prover::differ(Mode mode) {
  const NamedParameters& parameters = subject_.parameters();
  const auto pass = [&](double weighting) {
    return subject_.one_pass(samples_, {.mode = mode, .weighting = weighting});
  };
  const Gradients whole = pass(1);
  const Gradients accumulated = subject_.accumulated(worst_parts_, {.mode = mode});
  // A trained model's gradient has another size in each mode, and so has its rounding.
  Noise noise = noise_;
  Difference left;
  for (std::uint64_t seed = 1; seed <= most_further_draws; ++seed) {
    draw_noise(noise, parameters, pass, whole, seed);
    left = compare(parameters, accumulated, whole, noise).difference();
    if (!left.exceeds() || left.relative_error > may_be_kinks * worst_.relative_error) break;
  }
  return left;
}

std::vector<Gradients> Prover::gradients_of(const Parts& parts) {
  std::vector<Gradients> gradients;
  for (const batch::Range part : parts) gradients.push_back(subject_.one_pass(part, {}));
  return gradients;
}

void Prover::fit(Observations& seen) {
  Tensors sum, weighted;
  std::vector<Tensors> parts;
  const bool combined = worst_parts_.size() <= most_combined;
  for (const batch::Range range : worst_parts_) {
    Gradients part = subject_.one_pass(range, {});
    add(sum, part.sums, 1);
    add(weighted, part.sums, part.weight);
    seen.weight_of_parts += part.weight;
    seen.loss_sum_of_parts += part.loss_sum;
    if (combined) parts.push_back(std::move(part.sums));
  }
  const double tolerance = fit_tolerance();
  const auto is_one = [&](const Fit& fit) {
    return fit.matches && std::abs(fit.factor - 1) <= 10 * tolerance;
  };
  const auto free = [&](std::int64_t factors) {
    return elements(subject_.parameters()) > 2 * factors;
  };
  if (worst_parts_.size() < 2 || !free(1)) return;
  for (at::Tensor& tensor : weighted) tensor.div_(seen.weight_of_parts);
  seen.mean_as_sum = fit_multiple(reference_.sums, weighted, tolerance);
  seen.mean_as_sum.matches = is_one(seen.mean_as_sum);
  seen.multiple = fit_multiple(reference_.sums, sum, tolerance);
  seen.parts_add_up = is_one(seen.multiple);
  if (combined && free(std::ssize(parts))) seen.span = fit_span(reference_.sums, parts, tolerance);
}

std::optional<double> Prover::error_in_double(const Parts& of) {
  try {
    const std::unique_ptr<Subject> subject = subject_.in_double();
    if (!subject) return std::nullopt;
    const batch::Range few{samples_.begin,
                           std::min(samples_.end, samples_.begin + samples_in_double)};
    Parts parts = clipped(of, few);
    if (parts.size() < 2) parts = uneven_split(few).parts;
    const Gradients whole = subject->one_pass(few, {});
    return relative_error(subject->accumulated(parts, {}), whole);
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
  seen.keeps_sums = subject_.keeps_sums();
  seen.split_name = worst_name_;
  seen.dropouts = subject_.dropouts();
  if (subject_.draws_in_order())
    seen.reseeded =
        compare(subject_.parameters(), subject_.one_pass(samples_, {.seed = 2}), reference_, noise_)
            .difference();
  seen.batch_norms = subject_.batch_norms();
  seen.buffers_moved = subject_.buffers_moved();
  seen.low_precision = subject_.low_precision();
  if (subject_.can(Mode::batch_norms_frozen)) seen.frozen = differ(Mode::batch_norms_frozen);
  if (subject_.can(Mode::evaluation)) seen.evaluation = differ(Mode::evaluation);
  fit(seen);
  seen.relative_error_in_double = error_in_double(worst_parts_);
  return diagnose(seen);
}

}  // namespace accrue::proof
