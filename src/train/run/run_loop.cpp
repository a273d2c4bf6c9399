#include "train/run/run_loop.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "core/cause.h"
#include "memory/out_of_memory.h"
#include "train/checkpoint/resume.h"
#include "train/plan/enough_memory.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/memory_advice.h"

namespace accrue::train {

RunLoop::RunLoop(const RunContext& parts, TrainState state, const StoredTensors& of_ranks)
    : parts_(parts),
      config_(parts.work.config),
      model_(*parts.work.model),
      state_(std::move(state)),
      elapsed_before_(state_.elapsed),
      learning_rate_(make_learning_rate(config_, make_horizon(parts.plan))),
      recovery_(state_.micro_batches, fixed_micro_batch_reason(config_)),
      rollback_history_({&recovery_,
                         [this](const std::string& reason) { tell_event("out_of_memory", reason); },
                         [this] { return memory_advice(parts_.work, parts_.plan); },
                         [this](std::int64_t samples) { return enough_for(samples); }}),
      leases_(parts.ranks.rank(), state_.ranks, config_.dist.shares == Shares::speed),
      window_(make_gradient_buffer(config_, model_, &parts.optimizer)),
      loader_(parts.work.data.train, make_sampler(config_, *parts.work.data.train)),
      checkpoint_cadence_(config_.run.checkpoint_every, make_horizon(parts.plan),
                          "run.checkpoint_every") {
  if (config_.run.eval_every)
    eval_cadence_.emplace(*config_.run.eval_every, make_horizon(parts.plan), "run.eval_every");
  if (auto rounds = parts.ranks.make_rounds(config_, model_.parameters()))
    rounds_.emplace(std::move(rounds), parts.plan.total_steps);
  if (!state_.units.empty()) window_.buffer()->set_units(state_.units);
  takes_micro_statistics_ = config_.model.batchnorm == models::BatchNormPolicy::micro &&
                            !models::find_batch_norms(model_).none();
  reduce_ = parts.ranks.make_reduce(config_, window_.buffer());
  window_.set_reduction(reduce_.get());
  std::optional<PipelineStage> stage =
      parts.ranks.make_stage(config_, model_, loader_.fetch_full({0, parts.plan.micro_batch}));
  if (stage) pipeline_.emplace(stage->count(), stage->division);
  runner_ = make_runner(config_, model_, window_, loader_, hooks(),
                        {.cut_folder = parts.plan.cuts_in_file ? parts.directory.root() : "",
                         .recompute = parts.plan.recompute,
                         .recovery = &recovery_,
                         .reduce = reduce_.get()},
                        std::move(stage));
  load_state_of_ranks(of_ranks);
}

WindowHooks RunLoop::hooks() {
  return {.interrupted =
              [this] {
                follow_budget();
                return !parts_.ranks.are_many() && !rounds_ && parts_.signals.interrupted();
              },
          .stop_requested = [this] { return parts_.signals.interrupted(); },
          .rank_sums = [this](double seconds) { return rank_sums(seconds); },
          .on_micro_batch =
              [this](std::int64_t done, std::int64_t total) {
                tell([&](Observer& o) { o.on_micro_batch(done, total); });
              },
          .on_quarantine =
              [this](const MicroRef& micro, const std::string& reason) {
                rollback_history_.left_out(state_.window, micro);
                report_event("quarantine", describe(micro) + " was left out: " + reason +
                                               "; in the data: samples " +
                                               in_the_data(parts_.work, micro));
              },
          .known_bad =
              [this](const MicroRef& micro) {
                return rollback_history_.known_bad(state_.window, micro);
              },
          .on_out_of_memory =
              [this](const std::string& reason) { report_event("out_of_memory", reason); },
          .memory_advice = [this] { return memory_advice(parts_.work, parts_.plan); },
          .enough_budget = [this](std::int64_t samples) { return enough_for(samples); }};
}

std::optional<std::int64_t> RunLoop::enough_for(std::int64_t samples) const {
  return enough_budget(parts_.work, samples, parts_.plan.recompute);
}

/// Between micro-batches: memory may be taken away, or given back, during the run.
void RunLoop::follow_budget() {
  const std::optional<std::int64_t> before = memory::budget();
  const auto reason = train::follow_budget(parts_.budget_watch);
  if (reason) report_event("budget", *reason);
  const std::optional<std::int64_t> now = memory::budget();
  budget_was_raised_ |= before && (!now || *now > *before);
}

/// Before a window, which comes after evaluations and checkpoints: what lies outside tensors came
/// and went. Its micro-batches have one size, so what is given back during it counts from the next.
void RunLoop::settle_memory() {
  follow_budget();
  if (const auto reason = memory::follow_outside()) report_event("budget", *reason);
  if (!std::exchange(budget_was_raised_, false)) return;
  if (const auto decision = recovery_.limit_raised(memory::tensor_budget()))
    report_event("plan", decision->reason);
}

void RunLoop::tell_event(const std::string& name, const std::string& reason) {
  tell([&](Observer& o) { o.on_event({.name = name, .reason = reason, .step = state_.step + 1}); });
}

/// The event belongs to the step that was done last, not to the one under way.
void RunLoop::tell_event_after(const std::string& name, const std::string& reason) {
  tell([&](Observer& o) { o.on_event({.name = name, .reason = reason, .step = state_.step}); });
}

/// What the others do not know of: the first rank tells of it after the window.
void RunLoop::report_event(const std::string& name, const std::string& reason) {
  if (parts_.ranks.is_first()) return tell_event(name, reason);
  rank_events_.note({.name = name, .reason = reason, .step = state_.step + 1});
}

/// What ranks add up of a window, besides its totals.
std::vector<double> RunLoop::rank_sums(double seconds) const {
  std::vector<double> rank_sums =
      pipeline_ ? std::vector<double>{seconds} : leases_.rank_sums(seconds);
  rank_sums.push_back(rank_events_.figure());
  return rank_sums;
}

void RunLoop::take_rank_sums(const WindowRun& window) {
  if (!pipeline_) leases_.observe(window.rank_sums);
  if (window.rank_sums.back() == 0) return;
  for (const Event& event : rank_events_.gather(parts_.ranks, state_.window))
    tell([&](Observer& o) { o.on_event(event); });
}

void RunLoop::tell(const std::function<void(Observer&)>& notify) {
  RECORD_USER_SCOPE("log");
  for (const std::shared_ptr<Observer>& observer : parts_.observers) notify(*observer);
}

RunResult RunLoop::run() {
  tell([&](Observer& o) {
    o.on_start({.first_step = state_.step,
                .total_steps = parts_.plan.total_steps,
                .parameters = parts_.plan.parameters,
                .summary = summarise(config_, parts_.plan)});
  });
  if (pipeline_) tell_event_after("dist", pipeline_->in_words(parts_.plan.micro_batches));
  const memory::PeakScope peak;
  bool interrupted = false;
  try {
    // A window that is torn goes back to a checkpoint, so there has to be one.
    if (window_.buffer()->folds()) write();
    // A run that was stopped in an evaluation, or before it, is still owed it.
    if (state_.window > 0 && state_.window < parts_.plan.total_steps && !is_within_round())
      interrupted = !evaluate_if_due(false);
    while (!interrupted && state_.window < parts_.plan.total_steps) {
      const bool last = state_.window + 1 == parts_.plan.total_steps;
      const Ran ran = run_window();
      if (parts_.claim != nullptr) parts_.claim->check_there();
      if (ran == Ran::went_back || is_within_round()) continue;
      interrupted = ran == Ran::interrupted || !evaluate_if_due(last);
      if (!interrupted) checkpoint_if_due(last);
    }
    interrupted = interrupted || !evaluate_if_due(true);
    if (written_step_ != state_.step) write();
    finish_writing();
    if (parts_.claim != nullptr) parts_.claim->check_there();
  } catch (const Error& error) {
    save_what_was_done();
    if (!parts_.ranks.are_many() || error.kind() != Error::Kind::runtime) throw;
    throw Error(error.kind(), error.operation(), error.expected(), error.received(),
                error.suggestion() + "; " + what_is_saved());
  } catch (...) {
    save_what_was_done();
    throw;
  }
  tell([&](Observer& o) { o.on_end({.step = state_.step, .interrupted = interrupted}); });
  return {.step = state_.step,
          .interrupted = interrupted,
          .loss = last_loss_,
          .eval_loss = state_.eval_loss,
          .peak_bytes = peak.peak().live,
          .peak_reserved_bytes = peak.peak().reserved,
          .checkpoint = parts_.directory.checkpoint(state_.step)};
}

void RunLoop::save_what_was_done() {
  tell([&](Observer& o) { o.on_end({.step = state_.step}); });
  try {
    finish_writing();
    // The state of the others cannot be asked for any more; where ranks step alone, what this one
    // did since the last round is not the run's.
    if (rounds_ || parts_.sharded != nullptr) return;
    if (in_optimizer_step_ || state_.step == 0 || written_step_ == state_.step) return;
    begin_writing({});
    finish_writing();
  } catch (const std::exception&) {
    // The first error is the one to report; earlier checkpoints are untouched.
  }
}

/// Nothing where the window was torn, and the run went back to the last checkpoint.
std::optional<WindowRun> RunLoop::run_unless_torn(batch::Range range, std::int64_t micro_batch) {
  try {
    WindowRun window = runner_->run(state_.window, range, micro_batch);
    if (!window_.is_torn()) return window;
    rollback_history_.torn_by_gradient(state_.window, window.lost_reason);
    go_back(window.lost_reason);
  } catch (const std::exception& error) {
    if (!window_.is_torn() || !memory::is_out_of_memory(error)) throw;
    rollback_history_.torn_by_memory(state_.window, std::min(micro_batch, range.size()), error);
    go_back(cause_of(error));
  }
  return std::nullopt;
}

/// What was folded into the optimizer's state cannot be taken out again.
void RunLoop::go_back(const std::string& reason) {
  const Resumed last = load_checkpoint(parts_.directory, std::to_string(written_step_), state_.data,
                                       false, model_, parts_.optimizer);
  state_ = last.state;
  elapsed_before_ = state_.elapsed - watch_.seconds();
  tell([&](Observer& o) { o.on_rollback(state_.step); });
  tell_event("rollback", reason + ": the run goes on after step " + std::to_string(state_.step) +
                             ", from " + last.checkpoint.filename().string());
}

RunLoop::Ran RunLoop::run_window() {
  const Stopwatch watch;
  const memory::PeakScope peak;
  const std::int64_t sent_before = parts_.ranks.wire_bytes();
  settle_memory();
  const std::int64_t micro_batch = recovery_.state().micro_batch;
  const batch::Range range = parts_.work.schedule.window(state_.window);
  std::optional<WindowRun> ran = run_unless_torn(lease(range), micro_batch);
  if (!ran) return Ran::went_back;
  WindowRun& window = *ran;
  if (window.interrupted) return Ran::interrupted;
  rollback_history_.closed(state_.window);
  if (window.together) take_rank_sums(window);
  if (!window.lost_reason.empty()) tell_event("dropped", window.lost_reason);
  if (!window.left_out.empty())
    report_event("quarantine", "left out of the batch: " + describe(window.left_out));
  if (!rounds_ && window.micro_batches > 0 && window.quarantined == window.micro_batches) {
    throw runtime_error(
        "step " + std::to_string(state_.step + 1), "a finite loss",
        "none in any of its micro-batches",
        "a lower optim.lr, a longer warm-up, or --resume from an earlier checkpoint");
  }
  const double lr = learning_rate_.at(state_.step);
  if (window.gradient) finish_writing();
  const Stopwatch optimizer_watch;
  std::optional<double> norm;
  if (window.gradient) norm = take_step(std::move(*window.gradient), lr);
  const double optimizer_seconds = optimizer_watch.seconds();
  state_.window += 1;
  state_.samples += range.size();
  state_.tokens += window.tokens;
  const auto round = rounds_ ? local_step_done(window) : std::nullopt;
  StepReport report = report_of(window, watch.seconds());
  if (round) round->tell(report);
  report.lr = lr;
  report.grad_norm = norm;
  report.stepped = window.gradient.has_value();
  if (window.together) report.wire_bytes = parts_.ranks.wire_bytes() - sent_before;
  report.micro_batch = std::min(micro_batch, range.size());
  report.optimizer_seconds = window.closing_seconds + optimizer_seconds;
  if (memory::caching_allocator_installed()) report.peak_bytes = peak.peak().live;
  tell_step(report, window);
  grow_if_quiet(window);
  return window.stop_requested ? Ran::interrupted : Ran::whole;
}

/// Its part of the window. Parts are of planned sizes, so that all ranks know them; each runs its
/// own in pieces as memory allows.
batch::Range RunLoop::lease(batch::Range window) {
  if (pipeline_) return window;
  const batch::Range mine = leases_.share(window);
  if (leases_.change()) tell_event("leases", *leases_.change());
  return mine;
}

std::optional<double> RunLoop::take_step(accum::MeanGradient gradient, double lr) {
  if (parts_.gradient_hook) {
    gradient.materialize();
    parts_.gradient_hook(gradient);
    gradient.changed();
  }
  const std::optional<double> norm = clipped_norm(gradient);
  RECORD_USER_SCOPE("optimizer step");
  in_optimizer_step_ = true;
  parts_.optimizer.step(std::move(gradient), lr);
  in_optimizer_step_ = false;
  state_.step += 1;
  return norm;
}

/// Before clipping; none where the gradient was folded into the optimizer.
std::optional<double> RunLoop::clipped_norm(accum::MeanGradient& gradient) const {
  if (!gradient.has_values()) return std::nullopt;
  const double clip = config_.optim.clip;
  const double norm = clip > 0 ? gradient.clip(clip) : gradient.norm();
  if (std::isfinite(norm)) return norm;
  throw runtime_error("step " + std::to_string(state_.step + 1), "a finite gradient",
                      "norm " + std::to_string(norm),
                      "a lower optim.lr, or --resume from the last checkpoint");
}

StepReport RunLoop::report_of(const WindowRun& window, double seconds) {
  state_.elapsed = elapsed_before_ + watch_.seconds();
  if (window.weight > 0) last_loss_ = window.loss_sum / window.weight;
  StepReport report{.step = state_.step,
                    .epoch = parts_.work.schedule.epoch_at(state_.window),
                    .time = unix_time(),
                    .elapsed = state_.elapsed,
                    .samples = state_.samples,
                    .weight = window.weight,
                    .micro_batches = window.micro_batches,
                    .seconds = seconds,
                    .updates_per_hour = 3600 / seconds,
                    .accumulation_seconds = window.seconds,
                    .micro_batch_peak_bytes = window.micro_batch_peak_bytes,
                    .budget_bytes = memory::budget(),
                    .quarantined = window.quarantined,
                    .retries = window.retries};
  if (window.weight > 0) report.loss = window.loss_sum / window.weight;
  if (!parts_.work.data.train->image_shape()) {
    report.tokens = state_.tokens;
    report.batch_tokens = window.tokens;
    report.tokens_per_second = static_cast<double>(window.tokens) / seconds;
  }
  if (takes_micro_statistics_) report.batchnorm = "micro";
  report.world = parts_.ranks.world();
  if (window.together) {
    report.reduce_seconds = window.together->reduce_seconds;
    report.reduce_exposed_seconds = window.together->exposed_seconds;
  }
  if (pipeline_) pipeline_->tell(window, report);
  return report;
}

void RunLoop::tell_step(const StepReport& report, const WindowRun& window) {
  tell([&](Observer& o) { o.on_step(report); });
  if (report.stepped || !window.lost_reason.empty()) return;
  tell_event_after("no_step", window.quarantined > 0 || !window.left_out.empty()
                                  ? "no label counts in what is left of the batch"
                                  : "no label in the batch counts");
}

void RunLoop::grow_if_quiet(const WindowRun& window) {
  if (const auto decision = recovery_.window_done(window.out_of_memory == 0))
    report_event("plan", decision->reason);
}

}  // namespace accrue::train
