// Verification of a user's loop: run it, watch it, and find the explanation of its result.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "accrue/verify/verify.h"
#include "verify/fit.h"
#include "verify/in_double.h"
#include "verify/loop/loop_ruled_out.h"
#include "verify/loop/loop_watch.h"
#include "verify/module_subject.h"
#include "verify/prover.h"

namespace accrue::detail {
namespace {

using proof::Gradients;
using proof::LoopObservations;
using proof::Tensors;

using Loop = std::function<void(std::int64_t micro)>;

/// Fraction of the difference that accumulation in a low dtype may leave unexplained.
constexpr double low_precision_rest = 0.25;
constexpr double largest_low_precision_error = 0.5;
/// A difference of this many bounds is not rounding.
constexpr double no_rounding = 100;
/// Fits with more micro-batches than this would need too many gradients at once.
constexpr std::size_t most_fitted = 256;

/// Near a quarter of the batch, but not a divisor of it: mistakes in weighting are hidden if all
/// micro-batches are equal. Batch normalisation does not allow micro-batches of one sample.
std::int64_t uneven_micro_batch(std::int64_t samples, bool normalises_by_batch) {
  const std::int64_t quarter = std::max<std::int64_t>(1, samples / 4);
  if (!normalises_by_batch) {
    for (std::int64_t micro = quarter; micro <= samples / 2; ++micro)
      if (samples % micro != 0) return micro;
    return quarter;
  }
  const std::int64_t least = std::max<std::int64_t>(2, quarter);
  for (std::int64_t micro = least; micro <= samples - 2; ++micro)
    if (samples % micro > 1) return micro;
  for (std::int64_t micro = least; micro <= samples - 2; ++micro)
    if (samples % micro == 0) return micro;
  throw usage_error("verify_loop",
                    "a batch that splits into micro-batches of at least 2 samples, which batch "
                    "normalisation takes",
                    std::to_string(samples) + " samples", "a batch of 4 samples or more");
}

/// The results of a run of the loop.
struct LoopRun {
  Gradients gradients;
  bool parameters_changed = false;
  bool no_gradient = true;
  proof::LoopWatch::Seen stepped, zeroed;
  bool saw_sums = false;
};

LoopRun run_loop(const VerifiedModel& model, const NamedParameters& trained, const Loop& loop,
                 std::int64_t micro, std::uint64_t seed) {
  const proof::KeepState keep_state(trained, model.buffers);
  const proof::KeepParameters keep_parameters(trained);
  for (const NamedParameter& parameter : trained) parameter.tensor.mutable_grad().reset();
  proof::seed_generator(seed);
  const proof::LoopWatch watch(trained);
  loop(micro);

  LoopRun run{.gradients = {.weight = 1, .has_totals = false},
              .parameters_changed = keep_parameters.changed()};
  run.stepped = watch.stepped();
  run.zeroed = watch.zeroed();
  run.saw_sums = watch.saw_sums();
  bool has_gradients = false;
  for (const NamedParameter& parameter : trained) {
    const at::Tensor& grad = parameter.tensor.grad();
    has_gradients |= grad.defined();
    run.gradients.sums.push_back(grad.defined() ? grad.detach().clone()
                                                : at::zeros_like(parameter.tensor));
    const double size = proof::l2_norm(run.gradients.sums.back());
    run.no_gradient = run.no_gradient && size == 0;
    if (!std::isfinite(size))
      throw usage_error("verify_loop", "finite gradients", "one that is not, of " + parameter.name,
                        "looking at the loop's loss");
  }
  if (!has_gradients && !watch.saw_backward())
    throw usage_error(
        "verify_loop", "a loop that computes a gradient",
        "none: no backward pass reached a parameter",
        "loss.backward() for each micro-batch, with the model that the loop is given");
  return run;
}

/// A single micro-batch is the whole batch: any loop would be equal to one pass.
void require_two_micro_batches(const proof::Split& split, std::int64_t samples) {
  if (split.parts.size() >= 2) return;
  throw usage_error("verify_loop", "a window of at least 2 micro-batches",
                    "one micro-batch, of all " + std::to_string(samples) + " samples",
                    "micro-batches of " + std::to_string((samples + 1) / 2) + " samples or fewer");
}

Tensors mean_of(const Gradients& gradients) {
  Tensors mean;
  for (const at::Tensor& sum : gradients.sums)
    mean.push_back(sum.to(at::kDouble) / gradients.weight);
  return mean;
}

/// The sum of `parts` in a loop that keeps it in `dtype`.
Tensors added_up_in(at::ScalarType dtype, const std::vector<Gradients>& parts, double weight) {
  Tensors sum;
  for (const Gradients& part : parts)
    for (std::size_t i = 0; i < part.sums.size(); ++i) {
      const at::Tensor share = (part.sums[i] / weight).to(dtype);
      if (sum.size() <= i) {
        sum.push_back(share.clone());
      } else {
        sum[i].add_(share);
      }
    }
  return sum;
}

void fit_low_precision(LoopObservations& seen, const LoopRun& run,
                       const std::vector<Gradients>& parts, double weight, double error) {
  if (error > largest_low_precision_error) return;
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const proof::Fit fit = proof::fit_multiple(
        run.gradients.sums, added_up_in(dtype, parts, weight), low_precision_rest * error);
    if (fit.residual >= seen.low_precision.residual) continue;
    seen.low_precision = fit;
    seen.gradient_dtype = c10::toString(dtype);
  }
}

void fit_tails(LoopObservations& seen, const Tensors& gradient, const std::vector<Tensors>& sums,
               const std::vector<double>& weights, double tolerance) {
  for (std::size_t first = 1; first < sums.size(); ++first) {
    std::vector<double> by_sum(sums.size(), 0.0), by_mean(sums.size(), 0.0);
    for (std::size_t k = first; k < sums.size(); ++k) {
      by_sum[k] = 1;
      by_mean[k] = weights[k] > 0 ? 1 / weights[k] : 0;
    }
    for (const std::vector<double>& shares : {by_sum, by_mean}) {
      const proof::Fit fit =
          proof::fit_multiple(gradient, proof::combination(sums, shares), tolerance);
      if (fit.residual >= seen.tail.residual) continue;
      seen.tail = fit;
      seen.tail_begins = static_cast<std::int64_t>(first);
    }
  }
}

void fit(LoopObservations& seen, const LoopRun& run, proof::Prover& prover,
         const proof::Parts& parts) {
  const std::vector<Gradients> gradients = prover.gradients_of(parts);
  std::vector<Tensors> sums;
  std::vector<double> weights, mean_shares, found;
  for (const Gradients& part : gradients) {
    sums.push_back(part.sums);
    weights.push_back(part.weight);
    const double count = static_cast<double>(parts.size());
    mean_shares.push_back(part.weight > 0 ? 1 / (count * part.weight) : 0);
  }
  const double tolerance = prover.fit_tolerance();
  const Tensors& gradient = run.gradients.sums;
  seen.multiple = proof::fit_multiple(gradient, mean_of(prover.reference()), tolerance);
  seen.mean_of_means =
      proof::fit_multiple(gradient, proof::combination(sums, mean_shares), tolerance);
  fit_tails(seen, gradient, sums, weights, tolerance);
  seen.span = proof::fit_span(gradient, sums, tolerance, &found);
  for (std::size_t k = 0; k < found.size(); ++k) {
    seen.shares.push_back(found[k] * seen.total_weight);
    seen.mean_shares.push_back(found[k] * weights[k]);
    seen.part_norms.push_back(weights[k] > 0 ? proof::l2_norm(sums[k]) / weights[k] : 0);
  }
  fit_low_precision(seen, run, gradients, seen.total_weight,
                    proof::relative_error(run.gradients, prover.reference()));
}

void use(proof::Report& report, proof::Diagnosis diagnosis) {
  report.cause = diagnosis.cause;
  report.besides = std::move(diagnosis.besides);
  report.evidence = std::move(diagnosis.evidence);
  report.factor = diagnosis.factor;
  report.ruled_out = std::move(diagnosis.ruled_out);
  report.equal = report.cause == proof::Cause::none;
}

/// Whether the loss itself, added up correctly, differs from one pass: `report` has the reason. Its
/// rounding error is the residual allowed for fits of the loop.
bool is_unsound(proof::Subject& subject, proof::Prover& prover, const proof::Split& split,
                proof::Report& report) {
  proof::Findings findings(subject.parameters());
  // In their own order the parts draw the dropout masks of the whole.
  const proof::SplitResult checked = prover.check(proof::reversed(split), findings);
  report.conclusive = !checked.equal || prover.is_conclusive();
  if (checked.equal) {
    std::optional<proof::Diagnosis> in_double =
        proof::confirm_in_double(subject, prover, findings, report);
    if (!in_double) return false;
    findings.write(report);
    use(report, std::move(*in_double));
    return true;
  }
  report.splits.push_back(checked);
  findings.write(report);
  use(report, prover.explain());
  report.evidence.insert(
      report.evidence.begin(),
      "the loss itself, added up rightly, differs from one pass: the loop was not run");
  return true;
}

/// A difference that is not rounding needs no further noise draws: the loss's own parts are within
/// the bound, and the loop's passes are the same.
proof::Comparison compared(proof::Subject& subject, proof::Prover& prover,
                           const Gradients& gradients) {
  proof::Comparison plainly =
      proof::compare(subject.parameters(), gradients, prover.reference(), prover.noise());
  return plainly.difference().ratio > no_rounding ? plainly : prover.judge(gradients, {});
}

std::string why_inconclusive(const NamedParameters& parameters,
                             const proof::Comparison& comparison) {
  return proof::what_rounding_may_change(proof::joint_bound(comparison),
                                         proof::loosest_bound(parameters, comparison)) +
         "; try the loop in fp64, or other samples or weights, where this gradient is larger";
}

}  // namespace

proof::Report verify_loop(const VerifiedModel& model, const Loop& loop,
                          const VerifyOptions& options) {
  require_two_samples(model);
  proof::ModuleSubject subject(model);
  const std::int64_t micro =
      options.loop_micro_batch > 0
          ? options.loop_micro_batch
          : uneven_micro_batch(model.samples, !subject.batch_norms().empty());
  const batch::Range all{0, model.samples};
  const proof::Split split = proof::even_split(all, micro);
  require_two_micro_batches(split, model.samples);
  proof::Prover prover(subject, all, options.noise_draws);
  proof::Report report;
  report.reference = "one pass over " + std::to_string(model.samples) + " samples";
  if (is_unsound(subject, prover, split, report)) return report;

  const LoopRun run = run_loop(model, subject.parameters(), loop, micro, options.seed);
  Gradients gradients = run.gradients;
  gradients.accumulation_errors = prover.mean_accumulation_errors();
  gradients.scaling_roundoff = prover.reference().loss_roundoff;
  const proof::Comparison comparison = compared(subject, prover, gradients);
  proof::Findings findings(subject.parameters());
  findings.add(comparison);
  findings.write(report);
  // The loop itself has no fp64: faults hidden by rounding stay hidden.
  report.conclusive = comparison.exceeds() || proof::are_conclusive(comparison);
  report.inconclusive = report.conclusive ? "" : why_inconclusive(subject.parameters(), comparison);
  LoopObservations seen{.difference = comparison.difference(),
                        .micro_batches = static_cast<std::int64_t>(split.parts.size()),
                        .total_weight = prover.reference().weight,
                        .no_gradient = run.no_gradient,
                        .parameters_changed = run.parameters_changed,
                        .stepped_before = run.stepped.before,
                        .stepped_parameter = run.stepped.parameter,
                        .zeroed_before = run.zeroed.before,
                        .zeroed_parameter = run.zeroed.parameter,
                        .saw_sums = run.saw_sums};
  report.splits.push_back(proof::result_of("the loop, " + split.name, model.samples,
                                           seen.micro_batches, subject.parameters(), comparison));
  const bool fitted =
      seen.difference.exceeds() && !run.no_gradient && split.parts.size() <= most_fitted;
  if (seen.difference.exceeds() && !run.no_gradient) {
    const LoopRun again = run_loop(model, subject.parameters(), loop, micro, options.seed);
    seen.repeated =
        proof::compare(subject.parameters(), again.gradients, run.gradients, {}).difference();
    if (fitted) fit(seen, run, prover, split.parts);
  }
  proof::Diagnosis diagnosis = proof::diagnose_loop(seen);
  diagnosis.ruled_out = proof::ruled_out_of_loop(seen, fitted, diagnosis.cause);
  use(report, std::move(diagnosis));
  return report;
}

}  // namespace accrue::detail
