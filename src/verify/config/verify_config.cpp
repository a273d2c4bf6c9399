#include "verify/config/verify_config.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"
#include "memory/out_of_memory.h"
#include "train/plan/setup.h"
#include "verify/config/check_plan.h"
#include "verify/config/check_plan_input.h"
#include "verify/config/config_subject.h"
#include "verify/config/double_check.h"
#include "verify/config/each_by_itself.h"
#include "verify/config/ranked_window.h"
#include "verify/config/samples_that_fit.h"
#include "verify/config/skipped.h"
#include "verify/config/steps_check.h"
#include "verify/operations/operation_check.h"
#include "verify/power.h"
#include "verify/prover.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

constexpr const char* how_to_have_it = "accrue verify --thorough";

std::int64_t ranks_of(const train::Config& config, const VerifyConfigOptions& options) {
  return options.ranks > 0 ? options.ranks : config.dist.stages;
}

/// Refuses what training refuses, but for the missing choice, whose difference is to be shown.
train::Workload open(train::Config config, std::int64_t ranks) {
  if (config.model.batchnorm == models::BatchNormPolicy::error)
    config.model.batchnorm = models::BatchNormPolicy::micro;
  train::use_resources(config);
  train::Workload work = train::open_workload(train::with_whole_batch(std::move(config), ranks));
  work.ranks = train::ranks_that_share(work.config, ranks);
  models::check_batch_norms(*work.model, work.config.model.batchnorm);
  return work;
}

class ConfigVerification {
 public:
  ConfigVerification(train::Workload work, const VerifyConfigOptions& options,
                     const TrainingParts& parts)
      : options_(options),
        ranks_(ranks_of(work.config, options)),
        work_(std::move(work)),
        subject_(work_, parts),
        findings_(subject_.parameters()) {
    if (subject_.samples() >= 2) return;
    throw usage_error("verify", "a batch of at least 2 samples", std::to_string(subject_.samples()),
                      "a larger batch.samples or batch.tokens");
  }

  Report run() {
    const train::MicroDecision planned = train::choose_micro_batch(work_);
    const std::int64_t micro = std::min(planned.samples, subject_.samples());
    subject_.set_recompute(planned.recompute);
    limit_ = samples_that_fit(subject_);
    make_plan(micro);
    run_as_training(micro);
    run_by_ranks({.samples = micro, .recompute = planned.recompute});
    Prover few = on_first_samples();
    Prover all = on_window(few);
    beside_each_by_itself();
    require_some_split(report_, subject_.samples());
    take_steps();
    const Stopwatch watch_double;
    in_double();
    report_.times->in_double = watch_double.seconds();
    findings_.write(report_);
    conclude(few, all);
    report_.times->total = since_start_.seconds();
    return std::move(report_);
  }

 private:
  /// The window's gradient as training comes to it.
  struct TrainingsWay {
    Split split;
    Gradients gradients;
  };

  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  void check(Prover& prover, const Split& split) {
    tell(split.name + " over " + std::to_string(prover.samples().size()) + " samples");
    check_or_skip(prover, split, findings_, report_);
  }

  batch::Range first(std::int64_t samples) const {
    const std::int64_t begin = subject_.window().begin;
    return {begin, begin + std::min(samples, subject_.samples())};
  }

  void leave_out(const std::string& what) {
    report_.complete = false;
    report_.left_out.push_back(what);
  }

  void make_plan(std::int64_t micro) {
    const bool shared = ranks_ > 1 && !why_ranks_are_skipped(work_.config, ranks_);
    plan_ = plan_checks(
        plan_input(work_, {.samples = subject_.samples(),
                           .micro_batch = micro,
                           .other_windows = std::int64_t{subject_.folds()} + std::int64_t{shared},
                           .thorough = options_.thorough}));
    plan_.subset = std::min(plan_.subset, limit_);
    report_.times = {.windows = plan_.windows};
    tell("about the work of " + number(plan_.windows) + " windows of training");
    if (plan_.subset < subject_.samples())
      report_.evidence.push_back("splits, orders and steps on the first " +
                                 std::to_string(plan_.subset) + " of the window's " +
                                 std::to_string(subject_.samples()) +
                                 " samples (all of them: " + how_to_have_it + ")");
  }

  /// The window in micro-batches of `micro`, in all ways in which training adds it up.
  void run_as_training(std::int64_t micro) {
    Split own = even_split(subject_.window(), micro);
    tell("the window as training runs it, " + own.name);
    subject_.native_pass(own.parts.front(), {});  // kernels and memory are ready from here on
    const Stopwatch watch;
    as_training_.push_back({own, subject_.accumulated(own.parts, {})});
    report_.times->window = watch.seconds();
    fixed_point_ = subject_.fixed_point();
    if (!subject_.folds()) return;
    own.name += ", folded";
    tell(own.name);
    Gradients folded =
        subject_.folded(own.parts, as_training_.front().gradients.accumulation_errors);
    as_training_.push_back({std::move(own), std::move(folded)});
  }

  void run_by_ranks(const train::MicroDecision& micro) {
    if (ranks_ == 1) return;
    const bool stages = work_.config.dist.stages > 1;
    Split split = even_split(subject_.window(), micro.samples);
    split.name = std::to_string(ranks_) + (stages ? " stages, " : " ranks, ") + split.name;
    std::optional<std::string> reason = why_ranks_are_skipped(work_.config, ranks_);
    if (!reason) {
      tell(split.name);
      try {
        Gradients gradients = subject_.by_ranks(ranks_, micro);
        as_training_.push_back({std::move(split), std::move(gradients)});
        return;
      } catch (const std::exception& error) {
        if (!memory::is_out_of_memory(error)) throw;
        reason = "a copy of the model for each does not fit into memory";
      }
    }
    report_.skipped.push_back({split.name, subject_.samples(), *reason});
    report_.left_out.push_back(split.name + ": " + *reason);
  }

  Prover on_first_samples() {
    const batch::Range samples = first(plan_.subset);
    tell("one plain pass over " + std::to_string(samples.size()) +
         " samples, and what rounding makes of it");
    Prover prover(subject_, samples, plan_.noise_draws);
    prover.repeat();
    if (samples.size() < 2) {
      leave_out("other splits and orders: two samples do not fit into one pass");
      return prover;
    }
    check(prover, {"one pass by accrue's operations", {samples}});
    each_operation(samples);
    for (const std::int64_t size : plan_.sizes)
      if (size < samples.size()) check(prover, even_split(samples, size));
    check(prover, reversed(even_split(samples, 2)));
    check(prover, shuffled(even_split(samples, 1), 1));
    check(prover, uneven_split(samples));
    return prover;
  }

  /// Each operation of the model by itself, where accrue has a kernel for any; and what kernels put
  /// into slots beside what they return to autograd.
  void each_operation(batch::Range samples) {
    tell("each operation by itself");
    operations_ = check_operations(subject_, samples);
    if (!operations_) return;
    report_.splits.push_back(operations_->result);
    closely("slots, beside what kernels return", {samples}, subject_.native_pass(samples, {}),
            operations_->returned);
  }

  Comparison closely(const std::string& name, const Parts& parts, const Gradients& actual,
                     const Gradients& reference) {
    const Comparison comparison = compare_closely(subject_.parameters(), actual, reference);
    findings_.add(comparison);
    note_close(result_of(name, parts.back().end - parts.front().begin, std::ssize(parts),
                         subject_.parameters(), comparison));
    return comparison;
  }

  void note_close(SplitResult result) {
    if (!result.equal && !sums_differ_)
      sums_differ_ = {.what = result.name +
                              ": sums of the same gradients differ by more than sums may lose, "
                              "most in " +
                              result.parameter,
                      .error = result.relative_error,
                      .bound = result.bound};
    report_.splits.push_back(std::move(result));
  }

  Prover on_window(const Prover& few) {
    const batch::Range window = subject_.window();
    const bool fits = limit_ >= window.size();
    report_.reference =
        fits ? "one plain pass over the window's " + std::to_string(window.size()) + " samples"
             : "plain passes of " + std::to_string(limit_) + " of the window's " +
                   std::to_string(window.size()) + " samples";
    tell(report_.reference);
    const Parts passes = even_split(window, limit_).parts;
    Gradients reference =
        few.samples() == window && fits ? few.reference() : subject_.in_passes(passes, {});
    Prover prover(subject_, passes, std::move(reference), few.noise());
    for (const TrainingsWay& way : as_training_)
      report_.splits.push_back(prover.record(way.split, way.gradients, findings_));
    const NamedParameters& parameters = subject_.parameters();
    report_.smallest_fault = smallest_faults(parameters, prover.last(), prover.reference(),
                                             subject_.one_pass(smallest_pass(subject_), {}));
    sharpen(report_.smallest_fault, smallest_faults(parameters, few.last(), few.reference(), {}));
    if (operations_)
      sharpen_scaling(report_.smallest_fault, operations_->noticed_of_matrices,
                      operations_->noticed_of_vectors);
    std::ranges::move(parameters_left_out(parameters, prover.last(), prover.reference()),
                      std::back_inserter(report_.left_out));
    return prover;
  }

  /// In coarse arithmetic, the window beside its micro-batches each in a pass by itself: these
  /// round alike, so that only what sums lose may differ.
  void beside_each_by_itself() {
    const TrainingsWay& own = as_training_.front();
    if (!is_coarse(work_.config) || subject_.takes_statistics_of_window() ||
        own.split.parts.size() < 2)
      return;
    tell(own.split.name + ", each by itself");
    const EachByItself each = each_by_itself(subject_, own.split.parts, fixed_point_);
    if (each.fixed) note_close(*each.fixed);
    const Comparison comparison = closely(own.split.name + ", beside each by itself",
                                          own.split.parts, own.gradients, each.sum);
    if (comparison.exceeds() && !subject_.keeps_sums())
      blame_precision(*sums_differ_, own.gradients, each);
    sharpen_samples(report_.smallest_fault,
                    smallest_faults(subject_.parameters(), comparison, each.sum,
                                    subject_.one_pass(smallest_pass(subject_), {})));
  }

  void take_steps() {
    if (work_.config.optim.kind == train::OptimizerKind::adama) {
      leave_out(
          "optimizer steps: AdamA's second moment takes each micro-batch's gradient squared, "
          "so its steps depend on the split by design");
      return;
    }
    const std::int64_t samples = first(plan_.subset).size();
    const std::string what = std::to_string(plan_.steps) + " optimizer steps";
    if (samples < 2) {
      leave_out(what + ": two samples do not fit into one pass");
      return;
    }
    const StepsSplit split = split_steps(work_, plan_.steps, samples);
    tell(what + ", " + split.name);
    try {
      const StepsComparison steps = compare_steps(subject_, split);
      report_.steps = steps.result;
      steps_faults_ = steps.smallest_fault;
    } catch (const std::exception& error) {
      const std::optional<std::string> reason = why_one_sample_fails(error);
      if (!reason) throw;
      report_.skipped.push_back({what, samples, *reason});
      leave_out(what + ": " + *reason);
    }
  }

  void in_double() {
    const batch::Range samples = first(std::min(samples_in_double, limit_));
    if (samples.size() < 2) return;
    tell("the same in fp64, on " + std::to_string(samples.size()) + " samples");
    double_ = check_in_double(subject_, samples, report_);
    if (!double_) return;
    if (double_->diagnosis && !findings_.exceed()) findings_.add(double_->comparison);
    if (report_.steps && report_.steps->equal && !report_.steps->conclusive)
      take_steps_in_double(samples.size());
  }

  /// Where rounding may move parameters as far as training does.
  void take_steps_in_double(std::int64_t samples) {
    tell("optimizer steps in fp64");
    report_.evidence.push_back(
        "optimizer steps in " + compute_ + " prove nothing: rounding may move the parameters by " +
        number(report_.steps->joint_bound) + " of their movement; those in fp64 do");
    const StepsComparison steps =
        compare_steps(*double_->twin, split_steps(work_, plan_.steps, samples));
    report_.steps = steps.result;
    report_.steps->splits += ", in fp64";
    steps_faults_ = steps.smallest_fault;
  }

  void judge_bounds(double joint) {
    if (joint <= most_conclusive_bound && are_conclusive(report_.smallest_fault)) return;
    report_.conclusive = agrees_in_double();
    report_.evidence.push_back("in " + compute_ + " rounding may change " + number(joint) +
                               " of the gradient, which proves little" +
                               (agrees_in_double() ? "; the comparison in fp64 does" : ""));
  }

  void blame(const Blame& blamed) {
    report_.cause = blamed.cause;
    if (report_.max_relative_error <= report_.bound) {
      report_.max_relative_error = blamed.error;
      report_.bound = blamed.bound;
    }
    report_.evidence.push_back(blamed.what);
  }

  /// Explains by the comparison that is worst: the window's, or that of the few samples.
  void conclude(Prover& few, Prover& all) {
    Prover& worse = few.worst().exceeds() ? few : all;
    if (worse.worst().exceeds()) tell("looking for the cause");
    Diagnosis found = worse.worst().exceeds() ? worse.explain() : few.explain();
    if (found.cause == Cause::none && double_ && double_->diagnosis) found = *double_->diagnosis;
    report_.cause = found.cause;
    report_.besides = found.besides;
    report_.ruled_out = found.ruled_out;
    report_.evidence.insert(report_.evidence.begin(), found.evidence.begin(), found.evidence.end());
    if (operations_ && operations_->differing) {
      const OperationResult& worst = *operations_->differing;
      if (found.cause == Cause::none)
        blame({.what = text_of(worst), .error = worst.worst.error, .bound = worst.worst.bound});
      else
        report_.evidence.push_back(text_of(worst));
    }
    if (found.cause == Cause::none && sums_differ_) blame(*sums_differ_);
    if (found.cause == Cause::none && report_.steps && !report_.steps->equal)
      blame({.what = "gradients agree, but the optimizer's steps leave other parameters than "
                     "torch::optim's do (" +
                     report_.steps->splits + "): " + report_.steps->parameter,
             .error = report_.steps->relative_error,
             .bound = report_.steps->bound});
    for (const std::string& name : subject_.frozen_that_moved())
      blame({.what = "the parameter " + name + " is not trained, and moved"});
    for (const std::string& fault : subject_.faults_of_data(as_training_.front().split.parts))
      blame({.what = fault});
    report_.equal = report_.cause == Cause::none;
    judge_bounds(std::max(few.joint_bound(), all.joint_bound()));
    sharpen(report_.smallest_fault, steps_faults_);
  }

  bool agrees_in_double() const { return double_ && !double_->diagnosis; }

  const VerifyConfigOptions& options_;
  const std::int64_t ranks_;  ///< or stages
  Stopwatch since_start_;
  train::Workload work_;
  const std::string compute_{to_string(work_.config.precision.compute)};
  ConfigSubject subject_;
  Findings findings_;
  Report report_;
  CheckPlan plan_;
  std::vector<TrainingsWay> as_training_;
  std::optional<FixedPoint> fixed_point_;  ///< of the first of them
  std::int64_t limit_ = 1;
  std::optional<OperationCheck> operations_;  ///< none: the model has none of accrue's
  std::optional<Blame> sums_differ_;          ///< the first of note_close()
  std::vector<SmallestFault> steps_faults_;
  std::optional<DoubleCheck> double_;
};

}  // namespace

Report verify_config(train::Config config, const VerifyConfigOptions& options) {
  const Stopwatch watch;
  const std::int64_t ranks = ranks_of(config, options);
  Report report = verify_workload(open(std::move(config), ranks), options);
  report.times->total = watch.seconds();
  return report;
}

Report verify_workload(train::Workload work, const VerifyConfigOptions& options,
                       const TrainingParts& parts) {
  return ConfigVerification(std::move(work), options, parts).run();
}

}  // namespace accrue::proof
