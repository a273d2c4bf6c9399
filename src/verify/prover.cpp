#include "verify/prover.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "memory/out_of_memory.h"
#include "verify/fit.h"
#include "verify/running_sum.h"

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

Prover::Prover(Subject& subject, batch::Range samples, int noise_draws)
    : Prover(subject, Parts{samples}, subject.one_pass(samples, {}),
             Noise{.one_way = subject.rounds_elsewhere()}) {
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
  if (!comparison.exceeds() || !may_be_rounding(accumulated, parts)) return comparison;
  for (; comparison.exceeds() && further_draws_ > 0; --further_draws_) {
    draw();
    comparison = compare(parameters, accumulated, reference_, noise_);
  }
  return comparison;
}

SplitResult Prover::record(const Split& split, const Gradients& accumulated, Findings& findings) {
  const Comparison comparison = judge(accumulated, split.parts);
  mean_accumulation_errors_.clear();
  for (const double error : accumulated.accumulation_errors)
    mean_accumulation_errors_.push_back(error / accumulated.weight);
  findings.add(comparison);
  if (comparison.difference().ratio > worst_.ratio) {
    worst_ = comparison.difference();
    worst_split_ = split;
    worst_gradients_ = accumulated;
    joint_bound_ = proof::joint_bound(comparison, reference_);
  }
  last_ = comparison;
  return result_of(split.name, samples_.size(), std::ssize(split.parts), subject_.parameters(),
                   comparison);
}

Difference Prover::repeat() {
  repeated_ =
      compare(subject_.parameters(), subject_.in_passes(passes_, {}), reference_, {}).difference();
  return *repeated_;
}

Difference Prover::differ(Mode mode) {
  const NamedParameters& parameters = subject_.parameters();
  const auto pass = [&](double weighting) {
    return subject_.one_pass(samples_, {.mode = mode, .weighting = weighting});
  };
  const Gradients whole = pass(1);
  const Gradients accumulated = subject_.accumulated(worst_split_.parts, {.mode = mode});
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
  const bool combined = worst_split_.parts.size() <= most_combined;
  for (const batch::Range range : worst_split_.parts) {
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
  if (worst_split_.parts.size() < 2) {
    seen.parts_add_up = true;  // there is one, which is the whole
    seen.multiple.residual = 0;
    return;
  }
  if (!free(1)) return;
  for (at::Tensor& tensor : weighted) tensor.div_(seen.weight_of_parts);
  seen.mean_as_sum = fit_multiple(reference_.sums, weighted, tolerance);
  seen.mean_as_sum.matches = is_one(seen.mean_as_sum);
  seen.multiple = fit_multiple(reference_.sums, sum, tolerance);
  seen.parts_add_up = is_one(seen.multiple);
  if (combined && free(std::ssize(parts))) seen.span = fit_span(reference_.sums, parts, tolerance);
}

/// What training made of the worst split, beside its parts each by itself.
AddedUp Prover::fit_training() {
  RunningSum running;
  std::vector<Tensors> parts;
  for (const batch::Range range : worst_split_.parts) {
    Gradients part = subject_.native_pass(range, {});
    running.add(part);
    if (worst_split_.parts.size() <= most_combined) parts.push_back(std::move(part.sums));
  }
  const Gradients& sum = running.total();
  AddedUp added{.residual = relative_error(worst_gradients_, sum), .tolerance = fit_tolerance()};
  added.sum_rounding = running.lost_in_bf16();
  const Tensors& own = worst_gradients_.sums;
  const double scale = worst_gradients_.weight / sum.weight;
  added.multiple = fit_multiple(own, sum.sums, added.tolerance);
  added.multiple.factor /= scale;
  if (parts.empty()) return added;
  added.span = fit_span(own, parts, added.tolerance, &added.shares);
  for (double& share : added.shares) share /= scale;
  return added;
}

void Prover::compare_operations(Observations& seen) {
  const Gradients native = subject_.native_pass(samples_, {});
  const Comparison comparison = judge(native, {});
  const std::size_t worst = comparison.worst();
  seen.kernels = comparison.difference();
  seen.kernels_parameter = subject_.parameters()[worst].name;
  seen.kernels_factor = comparison.parameters[worst].factor;
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
  } catch (const std::exception& error) {
    if (memory::is_out_of_memory(error)) throw;
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
  seen.split_name = worst_split_.name;
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
  if (seen.parts_add_up) {
    if (passes_.size() == 1) compare_operations(seen);
    seen.added_up = fit_training();
  }
  seen.relative_error_in_double = error_in_double(worst_split_.parts);
  return diagnose(seen);
}

}  // namespace accrue::proof
