#include "train/run/optimizer_step.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "accum/torch_step.h"
#include "accum/window_remarks.h"
#include "core/cause.h"
#include "core/digits.h"
#include "core/words.h"
#include "memory/out_of_memory.h"
#include "optim/groups.h"
#include "train/plan/batch_norm_values.h"
#include "train/window/quarantine_limits.h"

namespace accrue::train {
namespace {

InputKind kind_of(const data::Source& source) {
  if (source.image_shape()) return InputKind::images;
  return source.uniform_tokens() ? InputKind::stream : InputKind::lines;
}

std::string overflow_in_words(double before, double now) {
  return "a gradient overflowed in fp16: the window ran again with losses times " +
         digit_groups(std::llround(now)) + " in place of " + digit_groups(std::llround(before));
}

std::vector<optim::ParameterGroup> settings_of_groups(const Workload& work) {
  auto groups = parameter_groups(work.config, work.model->parameters());
  for (optim::ParameterGroup& group : groups) group.names.clear();
  return groups;
}

/// The loss of a language model that predicts all tokens alike; none for other losses.
std::optional<double> uniform_loss(const Config& config) {
  const bool predicts_tokens =
      is_language_model(config.model.kind) &&
      (config.loss.kind == models::LossKind::lm || config.loss.kind == models::LossKind::mlm);
  if (!predicts_tokens || !config.model.vocab || *config.model.vocab < 2) return std::nullopt;
  return std::log(static_cast<double>(*config.model.vocab));
}

}  // namespace

OptimizerStep::OptimizerStep(const RunContext& run, Progress& progress, memory::Recovery& recovery,
                             const WindowFlow& flow, const data::Loader& loader,
                             Checkpointer& checkpointer, RunControl& control, BatchControl& batch,
                             NoiseMeter* noise, std::string why_windows_are_not_kept)
    : run_(run),
      progress_(progress),
      recovery_(recovery),
      flow_(flow),
      checkpointer_(checkpointer),
      control_(control),
      meters_(run, loader, checkpointer),
      watch_(make_sampler(run.work.config, *run.work.data.train), kind_of(*run.work.data.train)),
      divergence_(uniform_loss(run.work.config)),
      batch_(batch),
      noise_(noise),
      why_windows_are_not_kept_(std::move(why_windows_are_not_kept)),
      groups_(settings_of_groups(run.work)),
      histograms_(run, batch),
      rollback_history_(flow.retries),
      takes_micro_statistics_(run.work.config.model.batchnorm == models::BatchNormPolicy::micro &&
                              !models::find_batch_norms(*run.work.model).none()) {}

/// If ranks are lost before the step is taken, the window is taken again in the units with which it
/// began: a close has already planned those of the next one.
OptimizerStep::Outcome OptimizerStep::take() {
  const std::int64_t window = progress_.state.window;
  const std::vector<int> units = flow_.window.buffer()->units();
  try {
    return take_with_units();
  } catch (const distributed::RanksGone&) {
    if (progress_.state.window == window) flow_.window.buffer()->set_units(units);
    throw;
  }
}

OptimizerStep::Outcome OptimizerStep::take_with_units() {
  const Stopwatch watch;
  const memory::PeakScope peak;
  meters_.begin();
  settle_memory();
  if (const auto change = batch_.change_ahead()) flow_.log.event_of_last_step("batch", *change);
  if (flow_.parallelism.has_set_aside()) put_own_parameters_back();
  const batch::Range range = batch_.window(progress_.state.window);
  const Draws draws{.all = range, .own = flow_.parallelism.share(range)};
  begin_noise(draws);
  const std::int64_t micro_batch =
      batch_.micro_batch(draws.own.size(), recovery_.state().micro_batch);
  std::optional<WindowRun> window = run_unless_torn(draws.own, micro_batch);
  if (!window) return Outcome::went_back;
  if (window->interrupted) {
    report_interruption();
    return Outcome::stopped;
  }
  report_window(*window);
  check_first_window(*window);
  require_a_finite_loss(*window);
  see_divergence(*window);
  if (window->gradient) histograms_.see(*window->gradient, progress_.state.step + 1);
  const std::optional<NoiseReading> noise = read_noise(*window);
  const Update update = update_parameters(*window);
  advance(range, *window, noise);
  StepReport report = report_of(*window, draws, update, watch.seconds() + window->earlier_seconds);
  report.micro_batch = std::min(micro_batch, range.size());
  meters_.report(*window, draws.own.size(), peak.peak(), flow_.window.buffer()->bytes(), report);
  report_step(report, *window);
  report_anomalies(report, range);
  if (const auto decided = batch_.decide(progress_.state))
    flow_.log.event_of_last_step("batch", *decided);
  histograms_.tell(flow_.log);
  if (const auto decision = recovery_.window_done(window->out_of_memory == 0))
    flow_.log.event_of_this_rank("plan", decision->reason);
  return window->stop_requested ? Outcome::stopped : Outcome::whole;
}

/// With fixed-point sums the window's first micro-batch counts, on whichever rank it is, so that
/// the measurement does not depend on the shares.
void OptimizerStep::begin_noise(const Draws& draws) {
  if (noise_ == nullptr) return;
  const bool is_fixed = run_.work.config.precision.accumulate == accum::Accumulation::fixed;
  noise_->begin(progress_.state.step, !is_fixed || draws.own.begin == draws.all.begin);
}

/// Settles memory before a window: the memory outside tensors changed in evaluations and
/// checkpoints. A window's micro-batches have one size, so memory that is freed during it counts
/// from the next window on.
void OptimizerStep::settle_memory() {
  control_.follow();
  if (const auto reason = memory::follow_outside()) flow_.log.event_of_this_rank("budget", *reason);
  if (!control_.take_raised_budget()) return;
  if (const auto decision = recovery_.limit_raised(memory::tensor_budget()))
    flow_.log.event_of_this_rank("plan", decision->reason);
}

WindowRequest OptimizerStep::request_of(batch::Range share, std::int64_t micro_batch) {
  const std::int64_t index = progress_.state.window;
  WindowRequest request = WindowRequest::even(index, share, micro_batch);
  request.to_quarantine = rollback_history_.to_quarantine(index);
  const std::optional<StartedWindow>& middle = progress_.part ? progress_.part : progress_.started;
  if (middle) request.go_on_from(*middle, recovery_.state().micro_batch);
  if (takes_micro_statistics_ && !takes_one_sample_)
    takes_one_sample_ = expect_values_for_batch_norm(run_.work, request.micro_batches, index + 1);
  return request;
}

/// Runs the window; none if it was torn and the run went back to the last checkpoint.
std::optional<WindowRun> OptimizerStep::run_unless_torn(batch::Range share,
                                                        std::int64_t micro_batch) {
  const std::int64_t index = progress_.state.window;
  try {
    WindowRun window = run_window(flow_, request_of(share, micro_batch));
    if (!flow_.window.is_torn()) return window;
    rollback_history_.torn_by_gradient(flow_.window.ledger(), window.lost_reason);
    checkpointer_.go_back(window.lost_reason);
  } catch (const std::exception& error) {
    if (!flow_.window.is_torn() || !memory::is_out_of_memory(error)) throw;
    rollback_history_.torn_by_memory(index, std::min(micro_batch, share.size()), error);
    checkpointer_.go_back(cause_of(error));
  }
  return std::nullopt;
}

void OptimizerStep::report_interruption() const {
  if (!why_windows_are_not_kept_.empty())
    flow_.log.event_of_last_step("checkpoint", "a resumption begins step " +
                                                   std::to_string(progress_.state.step + 1) +
                                                   " again: " + why_windows_are_not_kept_);
}

void OptimizerStep::report_window(const WindowRun& window) {
  const std::int64_t index = progress_.state.window;
  if (const auto story = rollback_history_.closed(index)) flow_.log.event("out_of_memory", *story);
  flow_.parallelism.window_done(index, window);
  if (window.checkpoint_requested) checkpointer_.ask();
  if (!window.lost_reason.empty()) flow_.log.event("dropped", window.lost_reason);
  const auto& scale = progress_.state.loss_scale;  // with which the window began
  if (scale && window.loss_scale < scale->scale)
    flow_.log.event("loss_scale", overflow_in_words(scale->scale, window.loss_scale));
  if (!window.unreadable.empty())
    flow_.log.event_of_this_rank("quarantine",
                                 "left out of the batch: " + describe(window.unreadable));
}

void OptimizerStep::check_first_window(const WindowRun& window) {
  if (!window.gradient || std::exchange(looked_at_window_, true)) return;
  for (const accum::WindowRemark& remark : accum::remarks_on(flow_.window))
    flow_.log.event(remark.name, remark.reason);
}

void OptimizerStep::require_a_finite_loss(const WindowRun& window) const {
  if (flow_.parallelism.steps_locally()) return;
  if (window.micro_batches == 0 || window.quarantined < window.micro_batches) return;
  throw runtime_error("step " + std::to_string(progress_.state.step + 1), "a finite loss",
                      "none in any of its micro-batches",
                      "a lower optim.lr, a longer warm-up, or --resume from an earlier checkpoint");
}

/// Ranks that step alone have separate losses: none of them may end the run by itself.
void OptimizerStep::see_divergence(const WindowRun& window) {
  if (window.weight <= 0) return;
  const auto reason = divergence_.observe(window.loss_sum / window.weight);
  if (!reason) return;
  const std::string step = "step " + std::to_string(progress_.state.step + 1);
  const bool stops = run_.work.config.optim.on_divergence == OnDivergence::stop &&
                     !flow_.parallelism.steps_locally();
  if (!stops) return flow_.log.event("divergence", *reason + "; try " + Divergence::advice);
  throw runtime_error(
      step, "a loss that does not diverge (optim.on_divergence = \"stop\")", *reason,
      std::string("--resume from an earlier checkpoint with ") + Divergence::advice);
}

/// Waits until the last checkpoint is written, since the parameters change.
void OptimizerStep::put_own_parameters_back() {
  checkpointer_.finish();
  flow_.parallelism.go_on();
}

/// Waits until the last checkpoint is written, since the parameters change.
OptimizerStep::Update OptimizerStep::update_parameters(WindowRun& window) {
  const TrainState& state = progress_.state;
  if (window.gradient || flow_.parallelism.takes_outer_step_after(state.window + 1))
    checkpointer_.finish();
  const Stopwatch watch;
  Update update{.lr = batch_.learning_rate(), .fall = batch_.rate_fall()};
  if (window.gradient) update.grad_norm = consume(std::move(*window.gradient), update);
  update.seconds = watch.seconds();
  return update;
}

std::optional<double> OptimizerStep::consume(accum::MeanGradient gradient, const Update& update) {
  if (run_.gradient_hook) accum::show_to(run_.gradient_hook, gradient);
  const std::optional<double> norm = clipped_norm(gradient);
  RECORD_USER_SCOPE("optimizer step");
  if (const auto beta2 = batch_.beta2())
    run_.optimizer.set_second_moment(*beta2, progress_.state.adapt.log_decay);
  run_.optimizer.set_fall(update.fall);
  is_half_done_ = true;
  run_.optimizer.step(std::move(gradient), update.lr);
  return norm;
}

/// If a window lost a micro-batch, the sums after the first one show nothing about the rest.
std::optional<NoiseReading> OptimizerStep::read_noise(WindowRun& window) const {
  if (noise_ == nullptr || !window.gradient || window.quarantined > 0) return std::nullopt;
  return noise_->read(window.noise_sums, *window.gradient);
}

/// Counts the step and its window together: a checkpoint with only one of the two would train the
/// window twice.
void OptimizerStep::advance(batch::Range samples, WindowRun& window,
                            const std::optional<NoiseReading>& noise) {
  TrainState& state = progress_.state;
  is_half_done_ = true;
  batch_.update(window, samples.size(), window.gradient.has_value(), noise, state);
  if (window.gradient) state.step += 1;
  state.window += 1;
  progress_.started.reset();
  progress_.part.reset();
  state.samples += samples.size();
  state.tokens += window.tokens;
  is_half_done_ = false;
  flow_.parallelism.after_step(state, window);
}

/// Clips, and returns the norm before it; none if the gradient was folded into the optimizer.
std::optional<double> OptimizerStep::clipped_norm(accum::MeanGradient& gradient) const {
  if (!gradient.has_values()) return std::nullopt;
  const double clip = run_.work.config.optim.clip;
  const double norm = clip > 0 ? gradient.clip(clip) : gradient.norm();
  if (std::isfinite(norm)) return norm;
  throw runtime_error("step " + std::to_string(progress_.state.step + 1), "a finite gradient",
                      "norm " + std::to_string(norm),
                      "a lower optim.lr, or --resume from the last checkpoint");
}

StepReport OptimizerStep::report_of(const WindowRun& window, const Draws& draws,
                                    const Update& update, double seconds) {
  progress_.keep_time();
  const std::optional<double> epoch_seconds = ended_epoch_seconds();
  const TrainState& state = progress_.state;
  StepReport report{
      .step = state.step,
      .epoch = batch_.epoch_at(state.window),
      .time = unix_time(),
      .elapsed = state.elapsed,
      .samples = state.samples,
      .weight = window.weight,
      .losses = window.together ? std::map<std::string, double>{} : window.losses,
      .grad_norm = update.grad_norm,
      .lr = update.lr,
      .lrs = rates_of_groups(update),
      .micro_batches = window.micro_batches,
      .batch_samples = (flow_.parallelism.steps_locally() ? draws.own : draws.all).size(),
      .seconds = seconds,
      .epoch_seconds = epoch_seconds,
      .updates_per_hour = 3600 / seconds,
      .accumulation_seconds = window.seconds,
      .optimizer_seconds = window.closing_seconds + update.seconds,
      .micro_batch_peak_bytes = window.micro_batch_peak_bytes,
      .budget_bytes = memory::budget(),
      .quarantined = window.quarantined,
      .retries = window.retries,
      .world = run_.ranks.world(),
      .stepped = window.gradient.has_value()};
  if (window.weight > 0) report.loss = progress_.last_loss = window.loss_sum / window.weight;
  if (!run_.work.data.train->image_shape()) {
    report.tokens = state.tokens;
    report.batch_tokens = window.tokens;
    report.tokens_per_second = static_cast<double>(window.tokens) / seconds;
  }
  if (state.loss_scale) report.loss_scale = window.loss_scale;
  if (takes_micro_statistics_) report.batchnorm = "micro";
  batch_.report_length(report);
  if (noise_ != nullptr) batch_.report(noise_->block_names(), report);
  flow_.parallelism.report(window, report);
  return report;
}

/// Windows do not cross the ends of epochs.
std::optional<double> OptimizerStep::ended_epoch_seconds() {
  const std::int64_t window = progress_.state.window;
  if (std::floor(batch_.epoch_at(window)) == std::floor(batch_.epoch_at(window - 1)))
    return std::nullopt;
  return progress_.end_epoch();
}

std::map<std::string, double> OptimizerStep::rates_of_groups(const Update& update) const {
  std::map<std::string, double> rates;
  if (groups_.size() < 2) return rates;
  for (const optim::ParameterGroup& group : groups_)
    rates[group.name] = optim::group_rate(group.lr_factor, update.lr, update.fall);
  return rates;
}

void OptimizerStep::report_step(const StepReport& report, const WindowRun& window) const {
  flow_.log.step(report);
  if (report.stepped || !window.lost_reason.empty()) return;
  flow_.log.event_of_last_step("no_step", window.quarantined > 0 || !window.unreadable.empty()
                                              ? "no label counts in what is left of the batch"
                                              : "no label in the batch counts");
}

void OptimizerStep::report_anomalies(const StepReport& report, batch::Range draws) {
  if (const auto spike = watch_.see_loss(report, draws)) flow_.log.tell({&*spike, 1});
  if (!run_.work.config.adapt.is_on())
    if (const auto noise = watch_.see_noise(report)) flow_.log.tell({&*noise, 1});
  for (Event& event : watch_.see_machine(report, memory::tensor_budget()))
    flow_.log.event_of_this_rank(std::move(event));
  if (const auto slow = meters_.take_remark_on_disk())
    flow_.log.event_of_this_rank("slow_disk", *slow);
  if (const auto measured = meters_.measure_ceiling_if_due(report))
    flow_.log.event_of_last_step("ceiling", *measured);
}

}  // namespace accrue::train
