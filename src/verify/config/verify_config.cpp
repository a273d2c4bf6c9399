#include "verify/config/verify_config.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "memory/out_of_memory.h"
#include "memory/thread_meter.h"
#include "train/plan/setup.h"
#include "verify/config/check_plan.h"
#include "verify/config/config_subject.h"
#include "verify/config/ranked_window.h"
#include "verify/config/skipped.h"
#include "verify/config/steps_check.h"
#include "verify/prover.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

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

/// One sample, or two where one cannot be run by itself.
batch::Range smallest_pass(ConfigSubject& subject) {
  const batch::Range window = subject.window();
  const batch::Range first{window.begin, window.begin + 1};
  try {
    subject.one_pass(first, {});
    return first;
  } catch (const std::exception& error) {
    if (!why_one_sample_fails(error)) throw;
  }
  const batch::Range two{window.begin, window.begin + 2};
  subject.one_pass(two, {});
  return two;
}

/// Samples that fit into one pass, by what the smallest one takes: half of the free memory.
std::int64_t pass_limit(ConfigSubject& subject) {
  const batch::Range smallest = smallest_pass(subject);  // kernels' workspaces are made once
  const memory::ThreadMeter meter;
  subject.one_pass(smallest, {});
  const std::int64_t bytes = std::max<std::int64_t>(1, meter.peak());
  const std::int64_t passes = std::max<std::int64_t>(1, memory::available_bytes() / 2 / bytes);
  return std::min(passes * smallest.size(), subject.samples());
}

class ConfigVerification {
 public:
  ConfigVerification(train::Workload work, const VerifyConfigOptions& options)
      : options_(options),
        ranks_(ranks_of(work.config, options)),
        work_(std::move(work)),
        subject_(work_),
        findings_(subject_.parameters()) {
    if (subject_.samples() >= 2) return;
    throw usage_error("verify", "a batch of at least 2 samples", std::to_string(subject_.samples()),
                      "a larger batch.samples or batch.tokens");
  }

  Report run() {
    const train::MicroDecision planned = train::choose_micro_batch(work_);
    const std::int64_t micro = std::min(planned.samples, subject_.samples());
    subject_.set_recompute(planned.recompute);
    limit_ = pass_limit(subject_);
    run_as_training(micro);
    run_by_ranks({.samples = micro, .recompute = planned.recompute});
    plan_ = plan_checks({.window_samples = subject_.samples(),
                         .micro_batch = micro,
                         .window_seconds = report_.times->window,
                         .other_windows = std::ssize(as_training_) - 1});
    Prover few = on_first_samples();
    Prover all = on_window(few);
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

  /// The window in micro-batches of `micro`, in all ways in which training adds it up.
  void run_as_training(std::int64_t micro) {
    Split own = even_split(subject_.window(), micro);
    tell("the window as training runs it, " + own.name);
    const Stopwatch watch;
    as_training_.push_back({own, subject_.accumulated(own.parts, {})});
    report_.times = {.window = watch.seconds()};
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
  }

  Prover on_first_samples() {
    const batch::Range samples = first(std::min(plan_.subset, limit_));
    tell("one pass over " + std::to_string(samples.size()) +
         " samples, and what rounding makes of it");
    Prover prover(subject_, samples, plan_.noise_draws);
    prover.repeat();
    for (const std::int64_t size : plan_.sizes)
      if (size < samples.size()) check(prover, even_split(samples, size));
    if (plan_.orders && samples.size() > 1) {
      check(prover, reversed(even_split(samples, 2)));
      check(prover, shuffled(even_split(samples, 1), 1));
      check(prover, uneven_split(samples));
    }
    return prover;
  }

  Prover on_window(const Prover& few) {
    const batch::Range window = subject_.window();
    const bool fits = limit_ >= window.size();
    report_.reference =
        fits ? "one pass over the window's " + std::to_string(window.size()) + " samples"
             : "passes of " + std::to_string(limit_) + " of the window's " +
                   std::to_string(window.size()) + " samples";
    tell(report_.reference);
    const Parts passes = even_split(window, limit_).parts;
    Gradients reference =
        few.samples() == window && fits ? few.reference() : subject_.in_passes(passes, {});
    Prover prover(subject_, passes, std::move(reference), few.noise());
    for (const TrainingsWay& way : as_training_)
      report_.splits.push_back(prover.record(way.split, way.gradients, findings_));
    return prover;
  }

  void take_steps() {
    if (work_.config.optim.kind == train::OptimizerKind::adama) {
      report_.evidence.emplace_back(
          "gradients are compared, and no optimizer steps: AdamA's second moment takes each "
          "micro-batch's gradient squared, so its steps depend on the split by design");
      return;
    }
    const std::int64_t samples = first(std::min(plan_.subset, limit_)).size();
    if (plan_.steps == 0 || samples < 2) return;
    const StepsSplit split = split_steps(work_, plan_.steps, samples);
    const std::string what = std::to_string(plan_.steps) + " optimizer steps";
    tell(what + ", " + split.name);
    try {
      report_.steps = compare_steps(subject_, split);
    } catch (const std::exception& error) {
      const std::optional<std::string> reason = why_one_sample_fails(error);
      if (!reason) throw;
      report_.skipped.push_back({what, samples, *reason});
    }
  }

  /// Where rounding may move parameters as far as training does.
  void take_steps_in_double(ConfigSubject& twin) {
    if (!report_.steps || report_.steps->conclusive) return;
    const StepsSplit split =
        split_steps(work_, plan_.steps, first(std::min(samples_in_double, limit_)).size());
    tell("optimizer steps in fp64");
    report_.evidence.push_back(
        "optimizer steps in " + compute_ + " prove nothing: rounding may move the parameters by " +
        number(report_.steps->joint_bound) + " of their movement; those in fp64 do");
    const bool equal = report_.steps->equal;
    report_.steps = compare_steps(twin, split);
    report_.steps->splits += ", in fp64";
    report_.steps->equal = report_.steps->equal && equal;
  }

  void in_double() {
    try {
      const std::unique_ptr<ConfigSubject> twin = subject_.twin_in_double();
      if (!twin) return;
      const batch::Range samples = first(std::min(samples_in_double, limit_));
      if (samples.size() < 2) return;
      tell("the same in fp64, on " + std::to_string(samples.size()) + " samples");
      take_steps_in_double(*twin);
      Prover prover(*twin, samples, 1);
      Findings of_twin(twin->parameters());
      Split split = uneven_split(samples);
      split.name += ", in fp64";
      if (!check_or_skip(prover, split, of_twin, report_)) return;
      if (prover.worst().exceeds()) {
        twin_diagnosis_ = prover.explain();
        if (!findings_.exceed()) prover.check(split, findings_);
      }
      agrees_in_double_ = !prover.worst().exceeds();
      const Gradients computed = subject_.one_pass(samples, {});
      report_.evidence.push_back(
          compute_ + "'s gradient of " + std::to_string(samples.size()) + " samples is " +
          number(relative_error(computed, prover.reference())) + " from fp64's");
    } catch (const Error&) {
      report_.evidence.emplace_back("this model does not run in fp64, so there was no arbiter");
    }
  }

  void judge_bounds(double joint) {
    if (joint <= most_conclusive_bound) return;
    report_.conclusive = agrees_in_double_;
    report_.evidence.push_back("in " + compute_ + " rounding may change " + number(joint) +
                               " of the gradient, which proves little" +
                               (agrees_in_double_ ? "; the comparison in fp64 does" : ""));
  }

  /// Explains by the comparison that is worst: the window's, or that of the few samples.
  void conclude(Prover& few, Prover& all) {
    Prover& worse = few.worst().exceeds() ? few : all;
    const bool steps_differ = report_.steps && !report_.steps->equal;
    if (worse.worst().exceeds()) tell("looking for the cause");
    Diagnosis found = worse.worst().exceeds() ? worse.explain() : few.explain();
    if (found.cause == Cause::none && twin_diagnosis_) found = *twin_diagnosis_;
    report_.cause = found.cause;
    report_.besides = found.besides;
    report_.evidence.insert(report_.evidence.begin(), found.evidence.begin(), found.evidence.end());
    if (found.cause == Cause::none && steps_differ) {
      report_.cause = Cause::precision;
      report_.max_relative_error = report_.steps->relative_error;
      report_.bound = report_.steps->bound;
      report_.evidence.push_back("gradients agree, but " + report_.steps->splits +
                                 " leave other parameters than rounding explains");
    }
    report_.equal = report_.cause == Cause::none;
    judge_bounds(std::max(few.joint_bound(), all.joint_bound()));
  }

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
  std::int64_t limit_ = 1;
  std::optional<Diagnosis> twin_diagnosis_;  ///< of a difference in fp64
  bool agrees_in_double_ = false;
};

}  // namespace

Report verify_config(train::Config config, const VerifyConfigOptions& options) {
  const Stopwatch watch;
  const std::int64_t ranks = ranks_of(config, options);
  Report report = verify_workload(open(std::move(config), ranks), options);
  report.times->total = watch.seconds();
  return report;
}

Report verify_workload(train::Workload work, const VerifyConfigOptions& options) {
  return ConfigVerification(std::move(work), options).run();
}

}  // namespace accrue::proof
