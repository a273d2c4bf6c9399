#include "run_loop.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/cause.h"
#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "evaluation.h"
#include "memory_advice.h"
#include "resume.h"
#include "run_plan.h"

namespace accrue::train {

RunLoop::RunLoop(const RunParts& parts, TrainState state)
    : parts_(parts),
      config_(parts.work.config),
      model_(*parts.work.model),
      state_(std::move(state)),
      elapsed_before_(state_.elapsed),
      learning_rate_(make_learning_rate(config_, make_horizon(parts.plan))),
      recovery_(state_.micro_batches, why_no_split(config_)),
      torn_windows_({&recovery_,
                     [this](const std::string& reason) { tell_event("out_of_memory", reason); },
                     [this] { return what_would_fit(parts_.work, parts_.plan); }}),
      window_(make_gradient_buffer(config_, model_, &parts.optimizer)),
      loader_(parts.work.data.train, make_sampler(config_, *parts.work.data.train)),
      checkpoint_cadence_(config_.run.checkpoint_every, make_horizon(parts.plan),
                          "run.checkpoint_every") {
  if (config_.run.eval_every)
    eval_cadence_.emplace(*config_.run.eval_every, make_horizon(parts.plan), "run.eval_every");
  if (!state_.units.empty()) window_.buffer()->set_units(state_.units);
  takes_micro_statistics_ =
      config_.model.batchnorm == "micro" && !models::find_batch_norms(model_).none();
  reduce_ = parts.ranks.make_reduce(config_, window_.buffer());
  window_.set_reduction(reduce_.get());
  runner_ = make_runner(config_, model_, window_, loader_, hooks(),
                        {.cut_folder = parts.plan.cuts_in_file ? parts.directory.root() : "",
                         .recompute = parts.plan.recompute,
                         .recovery = &recovery_,
                         .reduce = reduce_.get()});
}

WindowHooks RunLoop::hooks() {
  return {
      .interrupted =
          [this] {
            follow_budget();
            return !parts_.ranks.are_many() && signals_.interrupted();
          },
      .stop_requested = [this] { return signals_.interrupted(); },
      .on_micro_batch =
          [this](std::int64_t done, std::int64_t total) {
            tell([&](Observer& o) { o.on_micro_batch(done, total); });
          },
      .on_quarantine =
          [this](const MicroRef& micro, const std::string& reason) {
            torn_windows_.left_out(state_.window, micro);
            tell_event("quarantine", describe(micro) + " was left out: " + reason +
                                         "; in the data: samples " + in_the_data(micro));
          },
      .known_bad =
          [this](const MicroRef& micro) { return torn_windows_.known_bad(state_.window, micro); },
      .on_out_of_memory =
          [this](const std::string& reason) { tell_event("out_of_memory", reason); },
      .what_would_fit = [this] { return what_would_fit(parts_.work, parts_.plan); }};
}

/// Between micro-batches: memory may be taken away, or given back, during the run.
void RunLoop::follow_budget() {
  if (const auto reason = train::follow_budget(parts_.budget_watch)) tell_event("budget", *reason);
}

/// Which samples of the data a micro-batch's draws took.
std::string RunLoop::in_the_data(const MicroRef& micro) const {
  constexpr std::size_t most = 16;
  const batch::Sampler sampler = make_sampler(config_, *parts_.work.data.train);
  std::string text;
  for (std::size_t i = 0; i < std::min(most, micro.sample_ids.size()); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(sampler.sample(micro.sample_ids[i]));
  return micro.sample_ids.size() > most ? text + ", ..." : text;
}

void RunLoop::tell_event(const std::string& name, const std::string& reason) {
  tell([&](Observer& o) { o.on_event({.name = name, .reason = reason, .step = state_.step + 1}); });
}

template <class Notify>
void RunLoop::tell(Notify&& notify) {
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
  const memory::PeakScope peak;
  bool interrupted = false;
  try {
    // A window that is torn goes back to a checkpoint, so there has to be one.
    if (window_.buffer()->folds()) write();
    while (!interrupted && state_.window < parts_.plan.total_steps) {
      const bool last = state_.window + 1 == parts_.plan.total_steps;
      const Ran ran = run_window();
      if (ran == Ran::went_back) continue;
      interrupted = ran == Ran::interrupted || !evaluate_if_due(last);
      if (!interrupted) checkpoint_if_due(last);
    }
    // A run that was stopped in its last evaluation is still owed it.
    interrupted = interrupted || !evaluate_if_due(true);
  } catch (...) {
    save_what_was_done();
    throw;
  }
  if (written_step_ != state_.step) write();
  finish_writing();
  tell([&](Observer& o) { o.on_end({.step = state_.step, .interrupted = interrupted}); });
  return {.step = state_.step,
          .interrupted = interrupted,
          .loss = last_loss_,
          .eval_loss = last_eval_,
          .peak_bytes = peak.peak().live,
          .peak_reserved_bytes = peak.peak().reserved,
          .checkpoint = parts_.directory.checkpoint(state_.step)};
}

void RunLoop::save_what_was_done() {
  tell([&](Observer& o) { o.on_end({.step = state_.step}); });
  try {
    finish_writing();
    if (in_optimizer_step_ || state_.step == 0 || written_step_ == state_.step) return;
    write();
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
    torn_windows_.torn_by_gradient(state_.window, window.lost_reason);
    go_back(window.lost_reason);
  } catch (const std::exception& error) {
    if (!window_.is_torn() || !is_out_of_memory(error)) throw;
    torn_windows_.torn_by_memory(state_.window, std::min(micro_batch, range.size()), error);
    go_back(cause_of(error));
  }
  return std::nullopt;
}

/// What was folded into the optimizer's state cannot be taken out again.
void RunLoop::go_back(const std::string& reason) {
  const Resumed last = load_checkpoint(parts_.directory, std::to_string(written_step_),
                                       state_.data_fingerprint, model_, parts_.optimizer);
  state_ = last.state;
  elapsed_before_ = state_.elapsed - watch_.seconds();
  evaluated_step_ = -1;
  tell([&](Observer& o) { o.on_rollback(state_.step); });
  tell_event("rollback", reason + ": the run goes on after step " + std::to_string(state_.step) +
                             ", from " + last.checkpoint.filename().string());
}

RunLoop::Ran RunLoop::run_window() {
  const Stopwatch watch;
  const memory::PeakScope peak;
  const std::int64_t micro_batch = recovery_.state().micro_batch;
  const batch::Range range = parts_.work.schedule.window(state_.window);
  // Parts are of the planned size, so that all ranks know them; each runs its own as memory allows.
  const batch::Range mine = parts_.ranks.share(range, parts_.plan.micro_batch);
  std::optional<WindowRun> ran = run_unless_torn(mine, micro_batch);
  if (!ran) return Ran::went_back;
  WindowRun& window = *ran;
  if (window.interrupted) return Ran::interrupted;
  torn_windows_.closed(state_.window);
  if (!window.lost_reason.empty()) tell_event("dropped", window.lost_reason);
  if (window.micro_batches > 0 && window.quarantined == window.micro_batches) {
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
  state_.window += 1;
  state_.samples += range.size();
  state_.tokens += window.tokens;
  StepReport report = report_of(window, watch.seconds());
  report.lr = lr;
  report.grad_norm = norm;
  report.stepped = window.gradient.has_value();
  report.micro_batch = std::min(micro_batch, range.size());
  report.optimizer_seconds = window.closing_seconds + optimizer_watch.seconds();
  if (memory::caching_allocator_installed()) report.peak_bytes = peak.peak().live;
  tell_step(report, window);
  grow_if_quiet(window);
  return window.stop_requested ? Ran::interrupted : Ran::whole;
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
    report.wire_bytes = window.together->wire_bytes;
  }
  return report;
}

void RunLoop::tell_step(const StepReport& report, const WindowRun& window) {
  tell([&](Observer& o) { o.on_step(report); });
  if (report.stepped || !window.lost_reason.empty()) return;
  tell([&](Observer& o) {
    o.on_event({.name = "no_step",
                .reason = window.quarantined > 0 ? "no label counts in what is left of the batch"
                                                 : "no label in the batch counts",
                .step = state_.step});
  });
}

void RunLoop::grow_if_quiet(const WindowRun& window) {
  if (const auto decision = recovery_.window_done(window.out_of_memory == 0))
    tell_event("plan", decision->reason);
}

/// In micro-batches as small as it takes.
std::optional<Evaluation> RunLoop::evaluate() {
  RECORD_USER_SCOPE("evaluation");
  EvaluationOptions options{.micro_batch = recovery_.state().micro_batch,
                            .cancelled =
                                [this] {
                                  follow_budget();
                                  return !parts_.ranks.are_many() && signals_.interrupted();
                                },
                            .ranks = &parts_.ranks};
  if (config_.run.eval_batches)
    options.max_samples = *config_.run.eval_batches * parts_.plan.batch_samples;
  while (true) {
    try {
      return evaluate_source(model_, *parts_.work.data.val, options);
    } catch (const std::exception& error) {
      if (options.micro_batch == 1 || !is_out_of_memory(error)) throw;
      options.micro_batch = (options.micro_batch + 1) / 2;
      tell_event("out_of_memory", "the evaluation ran out of memory and begins again by " +
                                      std::to_string(options.micro_batch) + " (" + cause_of(error) +
                                      ")");
    }
  }
}

bool RunLoop::evaluate_if_due(bool last) {
  if (!parts_.work.data.val) return true;
  const bool due = last || (eval_cadence_ && eval_cadence_->due(state_.step));
  if (!due || evaluated_step_ == state_.step) return true;
  std::optional<Evaluation> evaluation = evaluate();
  if (!evaluation) return false;
  evaluation->step = evaluated_step_ = state_.step;
  last_eval_ = evaluation->loss;
  tell([&](Observer& o) { o.on_evaluation(*evaluation); });
  if (eval_cadence_) eval_cadence_->done();
  note_best(evaluation->loss);
  return true;
}

void RunLoop::note_best(double eval_loss) {
  if (!std::isfinite(eval_loss)) return;
  if (!config_.run.keep_best || (state_.best_eval && *state_.best_eval <= eval_loss)) return;
  state_.best_eval = eval_loss;
  state_.best_step = state_.step;
  write();
}

void RunLoop::checkpoint_if_due(bool last) {
  if (written_step_ != state_.step && (last || checkpoint_cadence_.due(state_.step))) write();
}

void RunLoop::write() {
  if (!parts_.ranks.is_first()) {
    written_step_ = state_.step;
    return;
  }
  state_.elapsed = elapsed_before_ + watch_.seconds();
  state_.units = window_.buffer()->units();
  state_.micro_batches = recovery_.state();
  finish_writing();
  writer_.start(
      [directory = parts_.directory,
       content = checkpoint_content(state_, config_.model, model_, parts_.optimizer),
       prune = PruneOptions{.newest = state_.step,
                            .keep = config_.run.keep,
                            .best = config_.run.keep_best ? state_.best_step : std::nullopt}] {
        RECORD_USER_SCOPE("checkpoint: write");
        write_checkpoint(directory, content);
        prune_checkpoints(directory, prune);
      });
  written_step_ = state_.step;
  // What is folded into the optimizer's state changes it within the window.
  if (window_.buffer()->folds()) finish_writing();
  checkpoint_cadence_.done();
}

void RunLoop::finish_writing() {
  RECORD_USER_SCOPE("checkpoint: wait");
  try {
    writer_.finish();
  } catch (...) {
    written_step_ = -1;
    throw;
  }
}

}  // namespace accrue::train
