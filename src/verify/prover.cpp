#include "verify/prover.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "memory/out_of_memory.h"
#include "verify/added_parts.h"
#include "verify/fit.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

/// The most noise draws before a difference counts.
constexpr int most_further_draws = 16;
/// A loss that casts to a low dtype does so in fp64, too: an error of its rounding (bf16, a few
/// times) is evidence neither for nor against rounding.
constexpr double low_rounding = 4 * 0x1p-8;
/// The number of samples on which fp64 is used to find the cause. If there are more, it must show
/// at least this fraction of the difference in these, too.
constexpr std::int64_t samples_in_search = 64;
constexpr double least_shown = 0.1;
/// Draws that change more than this fraction of the gradient are examined: whether the change is
/// rounding at all.
constexpr double much_noise = 0.1;
/// If a mode leaves more than this fraction of a difference, further draws are not used: they are
/// for rounding at a kink (ReLU, MaxPool), which is small compared with the mode's effect.
constexpr double most_left_of_kinks = 0.01;

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
  draw(noise_draws);
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

void Prover::draw(int times) {
  const auto pass = [this](double weighting) {
    return subject_.in_passes(passes_, {.weighting = scales_draws_ ? weighting : 1});
  };
  for (int i = 0; i < times; ++i) {
    const Noise before = noise_;
    draw_noise(noise_, subject_.parameters(), pass, reference_, ++draws_);
    if (!scales_draws_ || noise_of_gradient() <= much_noise || halved() <= most_unscaled) continue;
    // A hook that clamps or normalises makes another gradient of a scaled loss: that is not
    // rounding.
    scales_draws_ = false;
    noise_ = before;
    draw_noise(noise_, subject_.parameters(), pass, reference_, draws_);
  }
}

/// Of the parameter whose gradient it changes most, relative.
double Prover::noise_of_gradient() const {
  const std::vector<double> norms = mean_norms(reference_);
  double most = 0;
  for (std::size_t i = 0; i < norms.size(); ++i)
    if (norms[i] > 0) most = std::max(most, noise_.norm[i] / norms[i]);
  return most;
}

/// The relative change of the mean gradient of a parameter when the loss is halved, which does not
/// round.
double Prover::halved() {
  if (subject_.takes_statistics_of_window()) return 0;
  const Gradients half = subject_.in_passes(passes_, {.weighting = 0.5});
  const Comparison comparison = compare(subject_.parameters(), half, reference_, {});
  const ParameterComparison& most = comparison.parameters[comparison.largest()];
  return most.norm.error / most.scale;
}

double Prover::fit_tolerance() const { return tolerance_of_fits(joint_bound_); }

SplitResult Prover::check(const Split& split, Findings& findings) {
  return record(split, subject_.accumulated(split.parts, {}), findings);
}

bool Prover::may_be_rounding(const Gradients& accumulated, const Parts& parts) {
  if (parts.empty()) return true;
  const std::optional<double> in_double = error_in_double(samples_in_double, parts);
  return !in_double || *in_double <= shrunk_in_double * relative_error(accumulated, reference_);
}

Comparison Prover::judge(const Gradients& accumulated, const Parts& parts) {
  const NamedParameters& parameters = subject_.parameters();
  Comparison comparison = compare(parameters, accumulated, reference_, noise_);
  if (!comparison.exceeds() || !may_be_rounding(accumulated, parts)) return comparison;
  for (; comparison.exceeds() && further_draws_ > 0; --further_draws_) {
    draw(1);
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
    joint_bound_ = proof::joint_bound(comparison);
    is_conclusive_ = are_conclusive(comparison);
    loosest_ = loosest_bound(subject_.parameters(), comparison);
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
    return subject_.in_passes(passes_, {.mode = mode, .weighting = weighting});
  };
  const Gradients whole = pass(1);
  const Gradients accumulated = subject_.accumulated(worst_split_.parts, {.mode = mode});
  // A trained model's gradient has another size in each mode, and so has its rounding.
  Noise noise = noise_;
  Difference left;
  for (std::uint64_t seed = 1; seed <= most_further_draws; ++seed) {
    draw_noise(noise, parameters, pass, whole, seed);
    left = compare(parameters, accumulated, whole, noise).difference();
    if (!left.exceeds() || left.relative_error > most_left_of_kinks * worst_.relative_error) break;
  }
  return left;
}

std::vector<Gradients> Prover::gradients_of(const Parts& parts) {
  std::vector<Gradients> gradients;
  for (const batch::Range part : parts) gradients.push_back(subject_.one_pass(part, {}));
  return gradients;
}

void Prover::fit(Observations& seen) {
  const std::vector<batch::Range>& ranges = worst_split_.parts;
  AddedParts added(ranges.size());
  Tensors weighted;
  for (const batch::Range range : ranges) {
    const Gradients part = subject_.one_pass(range, {});
    added.add(part);
    add(weighted, part.sums, part.weight);
  }
  seen.weight_of_parts = added.total().weight;
  seen.loss_sum_of_parts = added.total().loss_sum;
  const double tolerance = fit_tolerance();
  const auto is_one = [&](const Fit& fit) {
    return fit.matches && std::abs(fit.factor - 1) <= 10 * tolerance;
  };
  if (ranges.size() < 2) {
    seen.parts_add_up = true;  // there is only one, which is the whole
    return;
  }
  if (elements(subject_.parameters()) <= 2) return;
  for (at::Tensor& tensor : weighted) tensor.div_(seen.weight_of_parts);
  seen.mean_as_sum = fit_multiple(reference_.sums, weighted, tolerance);
  seen.mean_as_sum->matches = is_one(*seen.mean_as_sum);
  seen.multiple = fit_multiple(reference_.sums, added.total().sums, tolerance);
  seen.parts_add_up = is_one(*seen.multiple);
  seen.span = added.fit_span(reference_.sums, tolerance);
}

/// Training's result for the worst split, compared with its parts in separate passes.
SumEvidence Prover::fit_training() {
  const double sum_roundoff = subject_.sum_roundoff();
  AddedParts parts(worst_split_.parts.size(), sum_roundoff > 0);
  for (const batch::Range range : worst_split_.parts) parts.add(subject_.native_pass(range, {}));
  SumEvidence added = parts.explain(subject_.parameters(), worst_gradients_, sum_roundoff);
  added.pass_rounding = fit_tolerance();
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

double Prover::error_on(std::int64_t samples, Subject& subject, const Parts& of) const {
  const batch::Range few{samples_.begin, std::min(samples_.end, samples_.begin + samples)};
  Parts parts = clipped(of, few);
  if (parts.size() < 2) parts = uneven_split(few).parts;
  const Gradients whole = subject.in_passes(clipped(passes_, few), {});
  return relative_error(subject.accumulated(parts, {}), whole);
}

std::optional<double> Prover::error_in_double(std::int64_t samples, const Parts& of) {
  try {
    const std::unique_ptr<Subject> subject = subject_.in_double();
    if (!subject) return std::nullopt;
    const double error = error_on(samples, *subject, of);
    if (!of.empty()) subject->one_pass(of.front(), {});  // determines the dtypes of a part
    const std::string low = subject->low_precision();
    if (!low.empty() && low == subject_.low_precision() && error <= low_rounding)
      return std::nullopt;
    return error;
  } catch (const std::exception& error) {
    // A loss with its own fp32 tensors, or too little memory: there is no fp64 reference then.
    if (memory::is_out_of_memory(error)) leave_out("the difference in fp64", error);
    return std::nullopt;
  }
}

void Prover::leave_out(const std::string& what, const std::exception& error) {
  const std::string why = memory::is_out_of_memory(error)
                              ? memory::why_out_of_memory(error) + "; a larger memory.budget has it"
                              : error.what();
  std::string line = what + ": " + why;
  if (std::ranges::find(left_out_, line) == left_out_.end()) left_out_.push_back(std::move(line));
}

/// Measurements in the search for a cause may fail; the difference stays.
template <class Measure>
void Prover::attempt(Observations& seen, const std::string& what, Measure measure) {
  try {
    measure();
  } catch (const std::exception& error) {
    seen.is_complete = false;
    leave_out("of the search for the cause, " + what, error);
  }
}

void Prover::intervene(Observations& seen) {
  if (subject_.draws_in_order())
    attempt(seen, "another seed", [&] {
      const Gradients reseeded = subject_.in_passes(passes_, {.seed = 2});
      seen.reseeded = compare(subject_.parameters(), reseeded, reference_, noise_).difference();
    });
  if (subject_.can(Mode::batch_norms_frozen))
    attempt(seen, "batch normalisations on fixed statistics",
            [&] { seen.frozen = differ(Mode::batch_norms_frozen); });
  if (subject_.can(Mode::evaluation))
    attempt(seen, "evaluation mode", [&] { seen.evaluation = differ(Mode::evaluation); });
}

Diagnosis Prover::explain() {
  Observations seen{.split = worst_};
  seen.repeated = repeated_;
  if (!seen.repeated) attempt(seen, "the pass once more", [&] { seen.repeated = repeat(); });
  if (!worst_.exceeds()) return diagnose(seen);
  seen.weight = seen.weight_of_parts = reference_.weight;
  seen.loss_sum = seen.loss_sum_of_parts = reference_.loss_sum;
  seen.parts_differ_by_design = subject_.takes_statistics_of_window();
  seen.split_name = worst_split_.name;
  seen.dropouts = subject_.dropouts();
  seen.batch_norms = subject_.batch_norms();
  seen.buffers_moved = subject_.buffers_moved();
  seen.low_precision = subject_.low_precision();
  intervene(seen);
  attempt(seen, "half the loss", [&] { seen.halved = halved(); });
  attempt(seen, "fits of the parts", [&] { fit(seen); });
  if (seen.low_precision.empty()) seen.low_precision = subject_.low_precision();
  if (seen.parts_add_up && passes_.size() == 1)
    attempt(seen, "accrue's operations in one pass", [&] { compare_operations(seen); });
  if (seen.parts_add_up)
    attempt(seen, "fits of what training made of the parts",
            [&] { seen.added_up = fit_training(); });
  bool is_shown = samples_.size() <= samples_in_search;
  if (!is_shown)
    attempt(seen, "the first samples by themselves", [&] {
      is_shown = error_on(samples_in_search, subject_, worst_split_.parts) >
                 least_shown * relative_error(worst_gradients_, reference_);
    });
  if (is_shown)
    seen.relative_error_in_double = error_in_double(samples_in_search, worst_split_.parts);
  return diagnose(seen);
}

}  // namespace accrue::proof
