#include "run_loop.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "evaluation.h"
#include "run_plan.h"

namespace accrue::train {

RunLoop::RunLoop(const RunParts& parts, TrainState state)
    : parts_(parts),
      state_(std::move(state)),
      elapsed_before_(state_.elapsed),
      learning_rate_(make_learning_rate(parts.work.config, make_horizon(parts.plan))),
      window_(make_gradient_buffer(parts.work.config, parts.work.model->parameters())),
      loader_(parts.work.data.train, make_sampler(parts.work.config, *parts.work.data.train)),
      checkpoint_cadence_(parts.work.config.run.checkpoint_every, make_horizon(parts.plan),
                          "run.checkpoint_every") {
  if (parts.work.config.run.eval_every)
    eval_cadence_.emplace(*parts.work.config.run.eval_every, make_horizon(parts.plan),
                          "run.eval_every");
  if (!state_.units.empty()) window_.buffer()->set_units(state_.units);
  takes_micro_statistics_ = parts.work.config.model.batchnorm == "micro" &&
                            !models::find_batch_norms(*parts.work.model).none();
  runner_ = make_runner(parts.work.config, *parts.work.model, window_, loader_, hooks(),
                        parts.plan.cuts_in_file ? parts.directory.root() : "");
}

WindowHooks RunLoop::hooks() {
  return {.interrupted = [this] { return signals_.interrupted(); },
          .on_micro_batch =
              [this](std::int64_t done, std::int64_t total) {
                tell([&](Observer& o) { o.on_micro_batch(done, total); });
              },
          .on_quarantine =
              [this](const MicroRef& micro, const std::string& reason) {
                tell_event("quarantine", describe(micro) + " was left out: " + reason +
                                             "; in the data: samples " + in_the_data(micro));
              }};
}

/// Which samples of the data a micro-batch's draws took.
std::string RunLoop::in_the_data(const MicroRef& micro) const {
  constexpr std::size_t most = 16;
  const batch::Sampler sampler = make_sampler(parts_.work.config, *parts_.work.data.train);
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
  for (const std::shared_ptr<Observer>& observer : parts_.observers) notify(*observer);
}

RunResult RunLoop::run() {
  tell([&](Observer& o) {
    o.on_start({.first_step = state_.step,
                .total_steps = parts_.plan.total_steps,
                .parameters = parts_.plan.parameters,
                .summary = summarise(parts_.work.config, parts_.plan)});
  });
  bool interrupted = false;
  try {
    while (!interrupted && state_.window < parts_.plan.total_steps) {
      const bool last = state_.window + 1 == parts_.plan.total_steps;
      interrupted = !run_window() || !evaluate_if_due(last);
      if (!interrupted) checkpoint_if_due(last);
    }
    // A run that was stopped in its last evaluation is still owed it.
    interrupted = interrupted || !evaluate_if_due(true);
  } catch (...) {
    save_what_was_done();
    throw;
  }
  if (written_step_ != state_.step) write();
  tell([&](Observer& o) { o.on_end({.step = state_.step, .interrupted = interrupted}); });
  return {.step = state_.step,
          .interrupted = interrupted,
          .loss = last_loss_,
          .eval_loss = last_eval_,
          .checkpoint = parts_.directory.checkpoint(state_.step)};
}

void RunLoop::save_what_was_done() {
  tell([&](Observer& o) { o.on_end({.step = state_.step}); });
  if (in_optimizer_step_ || state_.step == 0 || written_step_ == state_.step) return;
  try {
    write();
  } catch (const std::exception&) {
    // The first error is the one to report; earlier checkpoints are untouched.
  }
}

bool RunLoop::run_window() {
  const Stopwatch watch;
  memory::reset_peak();
  const batch::Range range = parts_.work.schedule.window(state_.window);
  WindowRun window = runner_->run(state_.window, range, parts_.plan.micro_batch);
  if (window.interrupted) return false;
  if (!window.lost_reason.empty()) tell_event("dropped", window.lost_reason);
  if (window.micro_batches > 0 && window.quarantined == window.micro_batches) {
    throw runtime_error(
        "step " + std::to_string(state_.step + 1), "a finite loss",
        "none in any of its micro-batches",
        "a lower optim.lr, a longer warm-up, or --resume from an earlier checkpoint");
  }
  const double lr = learning_rate_.at(state_.step);
  const Stopwatch optimizer_watch;
  std::optional<double> norm;
  if (window.gradient) norm = take_step(std::move(*window.gradient), lr);
  state_.window += 1;
  state_.samples += range.size();
  state_.tokens += window.tokens;
  report_window(window, watch.seconds(), norm, lr, optimizer_watch.seconds());
  return true;
}

std::optional<double> RunLoop::take_step(accum::MeanGradient gradient, double lr) {
  if (parts_.gradient_hook) {
    gradient.materialize();
    parts_.gradient_hook(gradient);
    gradient.changed();
  }
  const double clip = parts_.work.config.optim.clip;
  const double norm = clip > 0 ? gradient.clip(clip) : gradient.norm();
  if (!std::isfinite(norm)) {
    throw runtime_error("step " + std::to_string(state_.step + 1), "a finite gradient",
                        "norm " + std::to_string(norm),
                        "a lower optim.lr, or --resume from the last checkpoint");
  }
  in_optimizer_step_ = true;
  parts_.optimizer.step(std::move(gradient), lr);
  in_optimizer_step_ = false;
  state_.step += 1;
  return norm;
}

void RunLoop::report_window(const WindowRun& window, double seconds, std::optional<double> norm,
                            double lr, double optimizer_seconds) {
  state_.elapsed = elapsed_before_ + watch_.seconds();
  if (window.weight > 0) last_loss_ = window.loss_sum / window.weight;
  StepReport report{.step = state_.step,
                    .epoch = parts_.work.schedule.epoch_at(state_.window),
                    .time = unix_time(),
                    .elapsed = state_.elapsed,
                    .samples = state_.samples,
                    .weight = window.weight,
                    .grad_norm = norm,
                    .lr = lr,
                    .micro_batch = parts_.plan.micro_batch,
                    .micro_batches = window.micro_batches,
                    .seconds = seconds,
                    .updates_per_hour = 3600 / seconds,
                    .accumulation_seconds = window.seconds,
                    .optimizer_seconds = window.closing_seconds + optimizer_seconds,
                    .quarantined = window.quarantined,
                    .retries = window.retries,
                    .stepped = norm.has_value()};
  if (window.weight > 0) report.loss = window.loss_sum / window.weight;
  if (!parts_.work.data.train->image_shape()) {
    report.tokens = state_.tokens;
    report.batch_tokens = window.tokens;
    report.tokens_per_second = static_cast<double>(window.tokens) / seconds;
  }
  if (takes_micro_statistics_) report.batchnorm = "micro";
  if (memory::caching_allocator_installed()) report.peak_bytes = memory::usage().peak;
  tell([&](Observer& o) { o.on_step(report); });
  if (!norm && window.lost_reason.empty())
    tell([&](Observer& o) {
      o.on_event({.name = "no_step",
                  .reason = window.quarantined > 0 ? "no label counts in what is left of the batch"
                                                   : "no label in the batch counts",
                  .step = state_.step});
    });
}

bool RunLoop::evaluate_if_due(bool last) {
  if (!parts_.work.data.val) return true;
  const bool due = last || (eval_cadence_ && eval_cadence_->due(state_.step));
  if (!due || evaluated_step_ == state_.step) return true;
  EvaluationOptions options{.micro_batch = parts_.plan.micro_batch,
                            .cancelled = [this] { return signals_.interrupted(); }};
  if (parts_.work.config.run.eval_batches)
    options.max_samples = *parts_.work.config.run.eval_batches * parts_.plan.batch_samples;
  std::optional<Evaluation> evaluation =
      evaluate_source(*parts_.work.model, *parts_.work.data.val, options);
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
  if (!parts_.work.config.run.keep_best || (state_.best_eval && *state_.best_eval <= eval_loss))
    return;
  state_.best_eval = eval_loss;
  state_.best_step = state_.step;
  write();
}

void RunLoop::checkpoint_if_due(bool last) {
  if (written_step_ != state_.step && (last || checkpoint_cadence_.due(state_.step))) write();
}

void RunLoop::write() {
  state_.elapsed = elapsed_before_ + watch_.seconds();
  state_.units = window_.buffer()->units();
  write_checkpoint(parts_.directory, state_, parts_.work.config.model, *parts_.work.model,
                   parts_.optimizer);
  const std::optional<std::int64_t> best =
      parts_.work.config.run.keep_best ? state_.best_step : std::nullopt;
  prune_checkpoints(parts_.directory,
                    {.newest = state_.step, .keep = parts_.work.config.run.keep, .best = best});
  written_step_ = state_.step;
  checkpoint_cadence_.done();
}

}  // namespace accrue::train
