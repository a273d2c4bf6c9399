#include "train/run/training_loop.h"

#include <ATen/record_function.h>

#include <chrono>
#include <thread>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/shard_scope.h"
#include "core/helper_thread.h"
#include "train/plan/enough_memory.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/memory_advice.h"
#include "train/ranks/limit_meeting.h"
#include "train/run/kept_windows.h"
#include "train/run/noise_record.h"
#include "train/workload/batch_changes.h"

namespace accrue::train {
namespace {

std::shared_ptr<accum::GradientBuffer> make_buffer(const RunContext& run, const TrainState& state) {
  auto buffer = make_gradient_buffer(run.work.config, *run.work.model, &run.optimizer);
  if (!state.units.empty()) buffer->set_units(state.units);
  return buffer;
}

/// Null if losses are not scaled; else it starts from the state's values.
std::unique_ptr<optim::LossScaler> make_loss_scaler(const PrecisionConfig& precision,
                                                    TrainState& state) {
  if (precision.compute != models::Compute::fp16) return nullptr;
  optim::LossScaler::Options options;
  if (precision.loss_scale) {
    options.initial_scale = static_cast<double>(*precision.loss_scale);
    options.dynamic = false;
  }
  auto scaler = std::make_unique<optim::LossScaler>(options);
  if (state.loss_scale) scaler->load(*state.loss_scale);
  state.loss_scale = scaler->state();
  return scaler;
}

/// How long the other ranks wait for one that rests because of limits: well within their timeout.
std::optional<double> patience_of_others(const RunContext& run) {
  if (!run.ranks.are_many()) return std::nullopt;
  return run.work.config.dist.timeout.value / 2;
}

/// Whether reading samples costs next to nothing compared with training on them: images have to be
/// decoded, and the cost of a user's own source is unknown.
bool reads_cheaply(const data::Source& source) {
  return !source.image_shape() && !source.files().empty();
}

/// A TorchScript module may add up its weights in a precision in which they depend on the split.
WeighSamples weigher_of(const RunContext& run, const data::Loader& loader) {
  const std::vector<models::LossHead> heads = run.work.model->losses();
  if (heads.size() != 1 || !heads.front().weight || !reads_cheaply(*run.work.data.train) ||
      run.work.config.model.kind == ModelKind::torchscript)
    return {};
  return [weight = heads.front().weight, &loader,
          micro_batch = run.plan.micro_batch](batch::Range samples) {
    double sum = 0;
    for (const batch::Range& range : batch::split(samples, micro_batch))
      sum += weight(loader.fetch(range));
    return sum;
  };
}

bool stops_alone(const RunContext& run) {
  return !run.ranks.are_many() && !run.work.config.dist.takes_outer_steps();
}

}  // namespace

TrainingLoop::TrainingLoop(const RunContext& run, TrainState state, const StoredTensors& of_ranks,
                           StoredTensors of_window)
    : run_(run),
      why_windows_are_not_kept_(why_windows_are_not_kept(run.work, run.ranks.world())),
      progress_(std::move(state), std::move(of_window)),
      log_(run.observers, progress_.state, run.ranks.is_first()),
      control_(run.watches.budget, run.signals, log_, stops_alone(run)),
      recovery_(progress_.state.micro_batches, fixed_micro_batch_reason(run.work.config)),
      buffer_(make_buffer(run, progress_.state)),
      shards_(run.ranks.make_shards(run.work.config, *run.work.model, buffer_)),
      loader_(run.work.data.train, make_sampler(run.work.config, *run.work.data.train)),
      parallelism_(
          make_parallelism({.config = run.work.config,
                            .ranks = run.ranks,
                            .model = *run.work.model,
                            .optimizer = run.optimizer,
                            .sharded = run.sharded,
                            .buffer = buffer_,
                            .shards = shards_.get(),
                            .loader = loader_,
                            .state = progress_.state,
                            .micro_batch = run.plan.micro_batch,
                            // The last round of local steps ends with the run.
                            .total_steps = windows_of_run(run.work, progress_.state.adapt.changes),
                            .log = log_,
                            .control = control_,
                            .may_change = run.ranks.may_go_on(run.work),
                            .notice = &run.notice,
                            .weigh = weigher_of(run, loader_)})),
      retries_(make_retries()),
      window_(buffer_),
      noise_(make_noise_meter(run_, *buffer_)),
      loss_scaler_(make_loss_scaler(run.work.config.precision, progress_.state)),
      recorded_(make_recorded_pass(run.work.config, *run.work.model)),
      runner_(make_runner(
          run.work.config,
          {*run.work.model, window_, loader_, run.work.config.run.seed, log_, control_, retries_},
          {.loss_scaler = loss_scaler_.get(),
           .cut_folder = run.plan.cuts_in_file ? run.directory.root() : "",
           .recompute = run.plan.recompute,
           .reduce = parallelism_->reduction(),
           .shards = shards_.get(),
           .noise = noise_.get(),
           .recorded = recorded_.get(),
           .keeper = make_keeper()},
          parallelism_->stage())),
      batch_(run_, progress_.state),
      checkpointer_(run_, progress_, recovery_, *buffer_, *parallelism_, log_, batch_),
      evaluator_(run_, progress_, recovery_, *parallelism_, shards_.get(), checkpointer_, log_,
                 control_, batch_),
      step_(run_, progress_, recovery_,
            {window_, *runner_, *parallelism_, retries_, log_, kept_of_windows()}, loader_,
            checkpointer_, control_, batch_, noise_.get(), why_windows_are_not_kept_) {
  window_.set_reduction(parallelism_->reduction());
  run_.watches.budget.leave_at_least([this] { return least_budget(); });
  if (!run_.watches.limits.is_empty())
    control_.heed(run_.watches.limits, run_.notice, patience_of_others(run_));
  if (!of_ranks.empty()) parallelism_->load_state(of_ranks, progress_.state);
}

memory::Retries TrainingLoop::make_retries() {
  return memory::Retries(
      parallelism_->retries_locally() ? &recovery_ : nullptr,
      [this] { return memory_advice(run_.work, run_.plan); },
      [this](std::int64_t samples) {
        return enough_budget(run_.work, samples, run_.plan.recompute);
      });
}

/// Micro-batches that memory may split go down to single samples.
std::int64_t TrainingLoop::least_budget() const {
  const bool may_split = fixed_micro_batch_reason(run_.work.config).empty();
  return budget_to_go_on(run_.work, may_split ? 1 : recovery_.state().micro_batch,
                         run_.plan.recompute);
}

/// Called once all members exist.
WindowKeeper TrainingLoop::make_keeper() {
  if (!why_windows_are_not_kept_.empty()) return {};
  return {
      .is_due = [this](double seconds) { return checkpointer_.due_in_window(seconds); },
      .keep = [this](StartedWindow started) { checkpointer_.write_in_window(std::move(started)); },
      .ranks = parallelism_->window_ranks(),
      .micro_batch = [this] { return recovery_.state().micro_batch; }};
}

/// The measurements of a window depend on which rank runs its first micro-batch, and with a batch
/// that follows them, so does the run.
std::optional<StartedWindow>* TrainingLoop::kept_of_windows() {
  return run_.work.config.adapt.is_on() ? nullptr : &done_of_window_;
}

void TrainingLoop::report_start() const {
  const RunPlan plan = batch_.plan_ahead();
  log_.start({.first_step = progress_.state.step,
              .total_steps = plan.total_steps,
              .parameters = plan.parameters,
              .summary = summarise(run_.work.config, plan),
              .batch = in_words(plan.effective),
              .batch_in_short = in_short(plan.effective)});
  if (const std::string remark = parallelism_->remark(run_.plan.micro_batches); !remark.empty())
    log_.event_of_last_step("dist", remark);
  if (!loader_.reads_ahead())
    log_.event_of_last_step("data", in_place_in_words("samples are read"));
  if (noise_ != nullptr && !noise_->remark().empty())
    log_.event_of_last_step("noise", noise_->remark());
}

std::optional<RunResult> TrainingLoop::run() {
  const memory::PeakScope peak;
  Ended ended = Ended::done;
  try {
    ended = train();
  } catch (const Error& error) {
    const bool ranks_are_gone = dynamic_cast<const distributed::RanksGone*>(&error) != nullptr;
    if (ranks_are_gone && run_.ranks.may_go_on(run_.work)) {
      why_ranks_change_ = error.received();
      log_.rollback();  // drops reports of a step that the new group takes again
      return std::nullopt;
    }
    save_after_error();
    if (!run_.ranks.are_many() || error.kind() != Error::Kind::runtime) throw;
    throw with_what_is_saved(error);
  } catch (...) {
    save_after_error();
    throw;
  }
  if (ended == Ended::before_others_join) {
    why_ranks_change_ = "others asked to join";
    return std::nullopt;
  }
  const bool stopped = ended == Ended::stopped;
  if (shards_ != nullptr) {
    const std::int64_t most = memory::shard_usage().most_in_memory;
    log_.event_of_last_step("dist", "at most " + format_bytes(most) + " (" + std::to_string(most) +
                                        " bytes) of parameters and gradients' sums were in memory");
  }
  log_.end(stopped);
  return RunResult{.step = progress_.state.step,
                   .interrupted = stopped,
                   .loss = progress_.last_loss,
                   .eval_loss = progress_.state.eval_loss,
                   .peak_bytes = peak.peak().live,
                   .peak_reserved_bytes = peak.peak().reserved,
                   .checkpoint = run_.directory.checkpoint(progress_.state.step)};
}

Error TrainingLoop::with_what_is_saved(const Error& error) const {
  return {error.kind(), error.operation(), error.expected(), error.received(),
          error.suggestion() + "; " + checkpointer_.saved_state_text()};
}

TrainingLoop::Ended TrainingLoop::train() {
  const TrainState& state = progress_.state;
  has_limits_ = !run_.ranks.all_true(run_.watches.limits.is_empty());
  look_at_metrics();
  bool stopped = !wait_for_limits();
  // A window that is torn goes back to a checkpoint, so there has to be one.
  if (buffer_->folds() || lacks_checkpoint_to_go_back_to()) checkpointer_.write();
  // A run that was stopped in an evaluation, or before it, still has to do it.
  if (!stopped && state.window > 0 && state.window < batch_.total_windows() &&
      !parallelism_->is_within_round(state.window))
    stopped = !evaluator_.evaluate_if_due(false);
  while (!stopped && state.window < batch_.total_windows()) {
    const bool last = state.window + 1 >= batch_.total_windows();
    const OptimizerStep::Outcome taken = step_.take();
    keep_loss_scale();
    expect_folder();
    look_at_metrics();
    if (taken == OptimizerStep::Outcome::went_back) batch_.restore();
    if (taken == OptimizerStep::Outcome::went_back || parallelism_->is_within_round(state.window))
      continue;
    stopped = taken == OptimizerStep::Outcome::stopped || !evaluator_.evaluate_if_due(last);
    if (!stopped && !last) stopped = !wait_for_limits();
    if (!stopped) checkpointer_.write_if_due(last);
    if (!stopped && !last && parallelism_->others_ask_to_join()) {
      // Ranks that divide the model go on from a checkpoint.
      if (run_.work.config.dist.shard == Shard::all)
        checkpointer_.write_last();
      else
        checkpointer_.finish();
      return Ended::before_others_join;
    }
  }
  stopped = stopped || !evaluator_.evaluate_if_due(true);
  checkpointer_.write_last();
  expect_folder();
  look_at_metrics();
  return stopped ? Ended::stopped : Ended::done;
}

/// Waits, with all other ranks, while limits let none of them work, or stop one that is needed.
/// Returns false if the run is to stop.
bool TrainingLoop::wait_for_limits() {
  if (!has_limits_) return true;
  control_.follow();
  while (control_.waits()) {
    if (!run_.ranks.are_many()) keep_while_waiting();
    control_.follow();
  }
  while (true) {
    // All ranks are at one point, when the first one can act on a notice.
    const bool takes_notice = !run_.ranks.is_first() && run_.notice.take();
    const LimitMeeting met = exchange_limits(run_.ranks, control_, log_, takes_notice);
    control_.met_others();
    if (met.has_notice && run_.ranks.is_first()) run_.notice.give();
    if (met.stops || parallelism_->follow_limits(met.speeds)) return !met.stops;
    RECORD_USER_SCOPE("limits: wait");
    keep_while_waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    control_.follow();
  }
}

/// Before the first step there is nothing to save.
void TrainingLoop::keep_while_waiting() {
  if (progress_.state.step > 0) checkpointer_.write_while_waiting();
}

/// Ranks that lost a part of the optimizer's state go back to a checkpoint as well.
bool TrainingLoop::lacks_checkpoint_to_go_back_to() const {
  return run_.sharded != nullptr && run_.ranks.may_go_on(run_.work) &&
         run_.ranks.broadcast_first(run_.directory.checkpoint_steps().empty());
}

/// A window goes back to a checkpoint only if gradients are folded, which fp16's are not.
void TrainingLoop::keep_loss_scale() {
  if (loss_scaler_) progress_.state.loss_scale = loss_scaler_->state();
}

void TrainingLoop::expect_folder() const {
  if (run_.claim != nullptr) run_.claim->check_there();
}

/// Reports lost lines; a run whose lines cannot be written ends.
void TrainingLoop::look_at_metrics() const {
  if (run_.metrics == nullptr) return;
  for (const std::string& remark : run_.metrics->take_remarks())
    log_.event_of_last_step("metrics", remark);
  if (run_.metrics->failure().empty()) return;
  throw runtime_error("write " + run_.directory.metrics_file().string(),
                      "a line for each step to be written", run_.metrics->failure(),
                      "more room on the disk, or a higher limit on the size of files (ulimit -f); "
                      "then --resume");
}

/// A model that is not finite is the cause of such losses: its error replaces the one thrown.
void TrainingLoop::save_after_error() {
  log_.failed();
  if (const std::exception_ptr cause = checkpointer_.save_after_error(!step_.is_half_done()))
    std::rethrow_exception(cause);
}

}  // namespace accrue::train
