#include "verify/config/verify_config.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "memory/out_of_memory.h"
#include "train/ranks/rank_conflicts.h"
#include "verify/config/check_plan.h"
#include "verify/config/check_plan_input.h"
#include "verify/config/close_checks.h"
#include "verify/config/config_subject.h"
#include "verify/config/double_check.h"
#include "verify/config/proof_workload.h"
#include "verify/config/ranked_window.h"
#include "verify/config/samples_that_fit.h"
#include "verify/config/skipped.h"
#include "verify/config/split_gradients.h"
#include "verify/config/steps_check.h"
#include "verify/config/trained_window.h"
#include "verify/config/verdict.h"
#include "verify/power.h"
#include "verify/prover.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

std::string why_it_failed(const std::exception& error) {
  if (!memory::is_out_of_memory(error)) return error.what();
  return memory::why_out_of_memory(error) + "; a larger memory.budget has it";
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
    const train::MicroDecision planned = train::choose_micro_batch(work_, options_.show);
    micro_ = std::min(planned.samples, subject_.samples());
    subject_.set_recompute(planned.recompute);
    limit_ = samples_that_fit(subject_);
    make_plan(micro_);
    try {
      compare_all({.samples = micro_, .recompute = planned.recompute});
    } catch (const NotFinite& error) {
      const bool is_trainings_own = !error.of_plain_pass && plain_passes_are_finite();
      if (!is_trainings_own && !differs()) throw;
      leave_out("what is compared after a pass that is not finite: " + error.received());
      if (is_trainings_own)
        not_finite_ = {.place = Place::not_finite,
                       .evidence = {error.received() + ", where plain passes over the window give "
                                                       "finite losses and gradients"},
                       .error = INFINITY};
    }
    findings_.write(report_);
    conclude();
    report_.times->total = since_start_.seconds();
    return std::move(report_);
  }

 private:
  void compare_all(const train::MicroDecision& micro) {
    run_as_training(micro.samples);
    run_by_ranks(micro);
    on_first_samples();
    attempt("the window beside plain passes", [&] { on_window(); });
    attempt("the window beside its micro-batches, each by itself",
            [&] { beside_each_by_itself(); });
    if (!differs()) require_some_split(report_, subject_.samples());
    attempt_steps();
    const Stopwatch watch;
    attempt("the comparison in fp64", [&] { in_double(); });
    report_.times->in_double = watch.seconds();
  }

  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  batch::Range first(std::int64_t samples) const {
    return subject_.counting(subject_.window(), samples);
  }

  void leave_out(const std::string& what) {
    report_.complete = false;
    report_.left_out.push_back(what);
  }

  /// Whether ranks, or stages, share the window, and their sums are compared.
  bool is_shared() const { return ranks_ > 1 && !why_ranks_are_skipped(work_.config, ranks_); }

  bool differs() const { return findings_.exceed() || close_.differ() || steps_differ(); }
  bool steps_differ() const { return report_.steps && !report_.steps->equal; }

  /// Steps after a difference may fail: the difference stays.
  template <class Step>
  void attempt(const std::string& what, Step step) {
    try {
      step();
    } catch (const NotFinite&) {
      throw;
    } catch (const std::exception& error) {
      if (!differs()) throw;
      leave_out(what + ": " + why_it_failed(error));
    }
  }

  bool plain_passes_are_finite() {
    tell("plain passes over the window");
    try {
      for (const batch::Range part : even_split(subject_.window(), limit_).parts)
        subject_.one_pass(part, {});
      return true;
    } catch (const NotFinite&) {
      return false;
    }
  }

  void make_plan(std::int64_t micro) {
    plan_ = plan_checks(plan_input(
        work_, {.samples = subject_.samples(),
                .micro_batch = micro,
                .other_windows = std::int64_t{subject_.folds()} + std::int64_t{is_shared()},
                .thorough = options_.thorough}));
    plan_.subset = std::min(plan_.subset, limit_);
    report_.times = {.windows = plan_.windows};
    tell("about the work of " + number(plan_.windows) + " windows of training");
    note_extent(report_, {.samples = subject_.samples(),
                          .taken = plan_.subset,
                          .fitting = limit_,
                          .has_budget = work_.config.memory.budget != "none"});
  }

  /// Runs the window in micro-batches of `micro`, by all of training's methods.
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
    Split split = split_of_ranks(work_, ranks_, micro.samples);
    tell(split.name);
    std::variant<Gradients, std::string> done = by_ranks(subject_, work_, ranks_, micro);
    if (auto* const gradients = std::get_if<Gradients>(&done)) {
      as_training_.push_back({std::move(split), std::move(*gradients)});
      return;
    }
    const std::string reason = std::get<std::string>(done);
    report_.skipped.push_back({split.name, subject_.samples(), reason});
    leave_out(split.name + ": " + reason);
  }

  void on_first_samples() {
    const batch::Range samples = first(plan_.subset);
    tell("one plain pass over " + std::to_string(samples.size()) +
         " samples, and what rounding makes of it");
    few_.emplace(subject_, samples, plan_.noise_draws);
    few_->repeat();
    if (samples.size() < 2) {
      leave_out("other splits and orders: two samples do not fit into one pass");
      return;
    }
    check({"one pass by accrue's operations", {samples}});
    tell("each operation by itself");
    attempt("each operation by itself", [&] { close_.each_operation(samples); });
    for (const std::int64_t size : plan_.sizes)
      if (size < samples.size()) check(even_split(samples, size));
    check(reversed(even_split(samples, 2)));
    check(shuffled(even_split(samples, 1), 1));
    check(uneven_split(samples));
  }

  void check(const Split& split) {
    tell(split.name + " over " + std::to_string(few_->samples().size()) + " samples");
    attempt(split.name, [&] { check_or_skip(*few_, split, findings_, report_); });
  }

  void on_window() {
    const batch::Range window = subject_.window();
    const bool fits = limit_ >= window.size();
    report_.reference =
        name_of_reference(window.size(), limit_, subject_.takes_statistics_of_window());
    if (!fits && subject_.takes_statistics_of_window())
      leave_out(
          "the window beside one plain pass, which does not fit: no other has the statistics "
          "of all its samples");
    tell(report_.reference);
    const Parts passes = even_split(window, limit_).parts;
    Gradients reference =
        few_->samples() == window && fits ? few_->reference() : subject_.in_passes(passes, {});
    all_.emplace(subject_, passes, std::move(reference), few_->noise());
    for (const SplitGradients& way : as_training_)
      report_.splits.push_back(all_->record(way.split, way.gradients, findings_));
    const NamedParameters& parameters = subject_.parameters();
    power_.window = smallest_faults(parameters, all_->last(), all_->reference(), a_sample());
    std::ranges::move(parameters_left_out(parameters, all_->last()),
                      std::back_inserter(report_.left_out));
  }

  Gradients a_sample() { return subject_.one_pass(smallest_pass(subject_), {}); }

  /// In coarse arithmetic, compares the window with its micro-batches in separate passes: these
  /// round identically, so that only the summation may differ.
  void beside_each_by_itself() {
    if (!is_coarse(work_.config)) return;
    const SplitGradients& own = as_training_.front();
    const std::string what = own.split.name + ", beside each by itself";
    if (subject_.takes_statistics_of_window()) {
      report_.left_out.push_back(
          what + ": exact batch normalisation takes its statistics over the whole window");
      return;
    }
    tell(what);
    close_.separate_passes(own.split, own.gradients, fixed_point_, a_sample());
  }

  void attempt_steps() {
    const std::string what = std::to_string(plan_.steps) + " optimizer steps";
    try {
      take_steps(what);
    } catch (const NotFinite&) {
      throw;
    } catch (const std::exception& error) {
      const std::optional<std::string> reason = why_one_sample_fails(error);
      if (!reason && !differs() && !memory::is_out_of_memory(error)) throw;
      if (reason) report_.skipped.push_back({what, first(plan_.subset).size(), *reason});
      leave_out(what + ": " + (reason ? *reason : why_it_failed(error)));
    }
  }

  void take_steps(const std::string& what) {
    const std::int64_t samples = first(plan_.subset).size();
    const StepsToCompare compared = steps_to_compare(work_.config, what, samples);
    for (const std::string& line : compared.left_out) leave_out(line);
    if (!compared.any) return;
    StepsSplit split = split_steps(subject_, work_, plan_.steps, samples);
    if (is_shared() && !subject_.folds())
      add_steps_of_ranks(split, work_, ranks_, subject_.recompute());
    tell(what + ", " + split.name);
    const StepsComparison steps = compare_steps(subject_, split);
    for (const std::string& line : steps.left_out) leave_out(line);
    report_.steps = steps.result;
    power_.steps.push_back(steps.smallest_fault);
  }

  void in_double() {
    const batch::Range samples = first(std::min(samples_in_double, limit_));
    if (samples.size() < 2) {
      report_.left_out.emplace_back("the comparison in fp64: two samples do not fit into one pass");
      return;
    }
    tell("the same in fp64, on " + std::to_string(samples.size()) + " samples");
    double_ = check_in_double(subject_, samples, report_);
    if (!double_) return;
    if (double_->diagnosis && !findings_.exceed()) findings_.add(double_->comparison);
    if (report_.steps && report_.steps->equal && !report_.steps->conclusive)
      take_steps_in_double(samples.size());
  }

  /// If rounding may move parameters as far as training does.
  void take_steps_in_double(std::int64_t samples) {
    tell("optimizer steps in fp64");
    try {
      const StepsComparison steps =
          compare_steps(*double_->twin, split_steps(*double_->twin, work_, plan_.steps, samples));
      power_.steps.push_back(
          take_in_double(report_, steps, {.samples = subject_.samples(), .taken = samples}));
    } catch (const std::exception& error) {
      if (!memory::is_out_of_memory(error)) throw;
      leave_out("optimizer steps in fp64: " + why_it_failed(error));
    }
  }

  bool agrees_in_double() const { return double_ && !double_->diagnosis; }

  double joint_bound() const {
    return std::max(few_ ? few_->joint_bound() : 0, all_ ? all_->joint_bound() : 0);
  }

  LoosestBound loosest_bound() const {
    LoosestBound loosest;
    for (const std::optional<Prover>* const prover : {&few_, &all_})
      if (*prover && (*prover)->loosest().relative > loosest.relative)
        loosest = (*prover)->loosest();
    return loosest;
  }

  /// The diagnosis of the comparisons with plain passes: the window's, or that of few samples.
  Diagnosis explained() {
    std::optional<Prover>& worse = few_ && few_->worst().exceeds() ? few_ : all_;
    if (!worse) return {};
    if (worse->worst().exceeds()) tell("looking for the cause");
    Diagnosis found = worse->worst().exceeds() || !few_ ? worse->explain() : few_->explain();
    std::ranges::copy(worse->left_out(), std::back_inserter(report_.left_out));
    if (found.cause == Cause::none && double_ && double_->diagnosis) found = *double_->diagnosis;
    return found;
  }

  DataCheck checked_data() {
    DataCheck data;
    attempt("the data of the window",
            [&] { data = subject_.check_data(even_split(subject_.window(), micro_).parts); });
    return data;
  }

  void conclude() {
    const DataCheck data = checked_data();
    const bool is_loaded_rightly = data.loading_faults.empty();
    const Diagnosis found = is_loaded_rightly ? explained() : Diagnosis{};
    take(report_, found);
    blame_loading(report_, data);
    if (close_.operation()) blame(report_, *close_.operation());
    if (close_.sums() && found.cause == Cause::none) blame(report_, *close_.sums());
    if (not_finite_) blame(report_, *not_finite_);
    if (report_.cause == Cause::none && double_ && double_->distance)
      blame(report_, *double_->distance);
    if (report_.cause == Cause::none && steps_differ())
      blame(report_, {.place = Place::steps,
                      .evidence = {"steps that differ: " + report_.steps->splits + ", most in " +
                                   report_.steps->parameter + " on " + report_.steps->stepper},
                      .error = report_.steps->relative_error,
                      .bound = report_.steps->bound});
    for (const std::string& name : subject_.moved_frozen_parameters())
      blame(report_, {.place = Place::frozen,
                      .evidence = {"the parameter " + name + " is not trained, and moved"}});
    blame_draws(report_, data);
    report_.equal = report_.cause == Cause::none;
    if (!report_.equal && found.cause == Cause::none && all_ && is_loaded_rightly &&
        !findings_.exceed())
      rule_out_by_agreement(report_, joint_bound(), agrees_in_double());
    close_.add_to(power_);
    report_.smallest_fault = smallest_faults_of(power_);
    judge_bounds(report_, {.compute = compute_,
                           .joint = joint_bound(),
                           .in_double = agrees_in_double(),
                           .loosest = loosest_bound()});
  }

  const VerifyConfigOptions& options_;
  const std::int64_t ranks_;  ///< or stages
  Stopwatch since_start_;
  train::Workload work_;
  const std::string compute_{to_string(work_.config.precision.compute)};
  ConfigSubject subject_;
  Findings findings_;
  Report report_;
  CloseChecks close_{subject_, findings_, report_};
  CheckPlan plan_;
  std::vector<SplitGradients> as_training_;
  std::optional<FixedPoint> fixed_point_;  ///< of the first of them
  std::int64_t limit_ = 1, micro_ = 1;
  std::optional<Prover> few_, all_;  ///< of first samples, and of the window
  std::optional<Blame> not_finite_;
  Power power_;
  std::optional<DoubleCheck> double_;
};

}  // namespace

Report verify_config(train::Config config, const VerifyConfigOptions& options) {
  const Stopwatch watch;
  const std::int64_t ranks = ranks_of(config, options);
  if (ranks > 1 && !why_ranks_are_skipped(config, ranks)) train::expect_enough_ranks(config, ranks);
  Report report = verify_workload(open_for_proof(std::move(config), ranks, options.show), options);
  report.times->total = watch.seconds();
  return report;
}

Report verify_workload(train::Workload work, const VerifyConfigOptions& options,
                       const TrainingParts& parts) {
  return ConfigVerification(std::move(work), options, parts).run();
}

}  // namespace accrue::proof
