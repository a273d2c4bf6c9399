#include "accrue/train/loop_plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "accrue/core/clock.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "accrue/models/trainable.h"
#include "accum/batch_size.h"
#include "accum/checked_sum.h"
#include "accum/differentiate.h"
#include "memory/out_of_memory.h"
#include "support/snapshot.h"
#include "train/pass/run_micro_batch.h"
#include "train/plan/plan_choice.h"
#include "train/plan/trial_runs.h"
#include "train/step/loss_check.h"
#include "train/step/micro_batch_size.h"

namespace accrue {
namespace {

using detail::RunSlice;

constexpr const char* kPlan = "accrue::plan";

/// The subject of a plan: a module or a chain of segments.
struct Subject {
  NamedParameters parameters;
  std::vector<at::Tensor> buffers;
  std::shared_ptr<accum::GradientBuffer> sums;  ///< null: they have to be created
  /// Runs so many samples forward and backward as a micro-batch of an open window.
  std::function<void(accum::Window& window, std::int64_t samples, Recompute recompute)> pass;
  std::vector<Recompute> modes{Recompute::none};
  std::int64_t least_samples = 1;  ///< that run at once
  std::int64_t most_samples = 0;   ///< that can be tried; 0: any number
  std::int64_t batch_samples = 1;
};

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// A budget for the time of the trials.
class BudgetForTrials {
 public:
  explicit BudgetForTrials(const std::string& text) {
    if (text.empty()) {
      limit_ = memory::tensor_budget();
      return;
    }
    limit_ = memory::resolve_budget(text);
    if (!memory::caching_allocator_installed()) return;
    before_ = memory::budget();
    memory::set_budget(limit_);
    is_set_ = true;
    memory::measure_outside();
    limit_ = memory::tensor_budget();
  }
  ~BudgetForTrials() {
    if (is_set_) memory::set_budget(before_);
  }
  BudgetForTrials(const BudgetForTrials&) = delete;
  BudgetForTrials& operator=(const BudgetForTrials&) = delete;

  /// The limit for all tensors; none if there is no budget.
  std::optional<std::int64_t> limit() const { return limit_; }

 private:
  std::optional<std::int64_t> limit_, before_;
  bool is_set_ = false;
};

/// Removes each `.grad` that is a view of the sums, which trials overwrite.
void forget_grads_in(const accum::GradientBuffer& sums) {
  for (const accum::GradientBuffer::Entry& entry : sums.entries()) {
    const at::Tensor& grad = entry.parameter.grad();
    if (grad.defined() && grad.is_alias_of(entry.slot->main))
      entry.parameter.mutable_grad().reset();
  }
}

/// Trials while a loop's sums and its other tensors are in memory.
class LoopTrials {
 public:
  LoopTrials(const Subject& subject, std::int64_t reserve_bytes)
      : subject_(subject),
        reserve_(at::empty({reserve_bytes}, at::kByte)),
        window_(subject.sums ? subject.sums
                             : std::make_shared<accum::GradientBuffer>(subject.parameters)),
        resident_{.parameters =
                      bytes_of(detail::tensors_of(subject.parameters)) + bytes_of(subject.buffers),
                  .gradients = window_.buffer()->bytes(),
                  .optimizer = reserve_bytes},
        runs_(resident_, [this] { window_.discard(); }) {}

  memory::Measured run(const memory::PlanPoint& point) {
    return runs_.run(point, [&]() -> train::TrialRuns::Pass {
      return [&] { return train::TrialRuns::Seconds{.all = pass(point)}; };
    });
  }
  memory::Measured measure_again(const memory::PlanPoint& point) {
    runs_.forget(point);
    return run(point);
  }
  bool has_run(const memory::PlanPoint& point) const { return runs_.has_run(point); }
  const memory::Resident& resident() const { return resident_; }

 private:
  double pass(const memory::PlanPoint& point) {
    const Stopwatch watch;
    window_.open(0);
    subject_.pass(window_, point.micro_batch, point.recompute);
    const double seconds = watch.seconds();
    window_.discard();
    return seconds;
  }

  const Subject& subject_;
  at::Tensor reserve_;
  accum::Window window_;
  memory::Resident resident_;
  train::TrialRuns runs_;
};

memory::PlanQuestion question_of(const Subject& subject, std::optional<std::int64_t> limit,
                                 std::int64_t reserve_bytes) {
  const std::int64_t most = subject.most_samples == 0
                                ? subject.batch_samples
                                : std::min(subject.most_samples, subject.batch_samples);
  std::int64_t count = 0;
  for (const NamedParameter& parameter : subject.parameters) count += parameter.tensor.numel();
  const std::int64_t parameters = bytes_of(detail::tensors_of(subject.parameters));
  return {
      .window_samples = most,
      .limit_bytes = limit.value_or(0),
      .outside_bytes = limit ? memory::left_outside() : 0,
      .stated_bytes =
          memory::budget_of() == memory::BudgetOf::process ? memory::budget().value_or(0) : 0,
      .is_budget = limit.has_value(),
      .modes = subject.modes,
      .least_micro_batch = subject.least_samples,
      .resident = {.parameters = parameters, .gradients = parameters, .optimizer = reserve_bytes},
      .parameter_count = count};
}

LoopPlanEntry entry_of(const memory::PlanEntry& entry, std::int64_t batch_samples) {
  const std::int64_t size = entry.point.micro_batch;
  return {.micro_batch = size,
          .micro_batches = (batch_samples + size - 1) / size,
          .recompute = entry.point.recompute,
          .predicted_peak_bytes = entry.peak_bytes,
          .predicted_seconds_per_micro_batch = entry.micro_batch_seconds,
          .seconds_per_sample = entry.micro_batch_seconds / static_cast<double>(size),
          .within_limit = entry.within_limit};
}

std::unique_ptr<LoopTrials> begin_trials(const Subject& subject,
                                         const memory::PlanQuestion& question) {
  try {
    return std::make_unique<LoopTrials>(subject, question.resident.optimizer);
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
  }
  train::refuse_resident_bytes(question);
}

/// Plans, and runs the plan, until one went through.
LoopPlan plan_and_run(LoopTrials& trials, memory::PlanQuestion& question,
                      std::vector<memory::Fact>& facts, std::int64_t batch_samples) {
  const memory::Trial afresh = [&](const memory::PlanPoint& point) {
    return trials.measure_again(point);
  };
  for (;;) {
    train::remeasure_beyond_budget(afresh, question, facts);
    const memory::Plan made = memory::plan(facts, question);
    const memory::Measured measured = afresh(made.chosen.point);
    if (!measured.fits) {
      facts.push_back({made.chosen.point, measured});
      continue;
    }
    LoopPlan plan{entry_of(made.chosen, batch_samples),
                  batch_samples,
                  measured.peak_bytes,
                  made.reason,
                  /*recompute_reason=*/{},
                  /*alternatives=*/{}};
    for (const memory::PlanEntry& other : made.alternatives)
      plan.alternatives.push_back(entry_of(other, batch_samples));
    return plan;
  }
}

LoopPlan plan_subject(const Subject& subject, const LoopPlanOptions& options) {
  const Keep generators{GeneratorSnapshot(devices_of(detail::tensors_of(subject.parameters)))};
  const Keep buffers{TensorSnapshot(subject.buffers)};
  if (subject.sums) forget_grads_in(*subject.sums);
  const Keep grads{GradSnapshot(subject.parameters)};
  const BudgetForTrials budget(options.budget);
  memory::PlanQuestion question = question_of(subject, budget.limit(), options.reserve_bytes);
  const std::unique_ptr<LoopTrials> trials = begin_trials(subject, question);
  question.resident = trials->resident();
  if (!question.is_budget) question.limit_bytes = train::preferred_limit(question.resident);
  std::vector<memory::Fact> facts = memory::measure(
      [&](const memory::PlanPoint& point) {
        if (options.progress && !trials->has_run(point))
          options.progress("trying " + memory::describe(point));
        return trials->run(point);
      },
      question);
  return plan_and_run(*trials, question, facts, subject.batch_samples);
}

/// Runs a module's samples as a micro-batch. The forward pass sees closed slots, as in a loop.
void run_module(accum::Window& window, const RunSlice& run, std::int64_t samples) {
  const Loss loss = run(0, samples);
  const double sum = checked_sum(loss);
  window.begin({.index = 0, .sample_ids = {}, .weight = loss.weight});
  if (!std::isfinite(sum)) return window.abort(MicroStatus::quarantined, "the loss is not finite");
  if (loss.weight > 0 || loss.sum.requires_grad()) accum::differentiate(*window.buffer(), loss);
  window.commit(sum, loss.weight);
}

/// Batch normalisation in training has no statistics of a single value.
std::int64_t fewest_of(std::int64_t samples, bool takes_statistics) {
  return takes_statistics ? std::min<std::int64_t>(2, samples) : 1;
}

std::int64_t least_samples_of(const detail::PlannedLoop& loop) {
  return fewest_of(loop.samples, loop.model.batch_norms && !loop.model.batch_norms().empty());
}

/// The mean over the first `samples`; none if memory runs out for them.
std::optional<double> tokens_of_a_sample(const detail::PlannedLoop& loop, std::int64_t samples) {
  const Keep generators{GeneratorSnapshot(devices_of(detail::tensors_of(loop.model.parameters)))};
  const Keep buffers{TensorSnapshot(loop.model.buffers)};
  const at::NoGradGuard no_graph;
  try {
    return loop.run(0, samples).weight / static_cast<double>(samples);
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    return std::nullopt;
  }
}

/// As many samples as have the tokens of a batch; none if not even one fits in memory.
std::optional<std::int64_t> samples_with(std::int64_t tokens, const detail::PlannedLoop& loop) {
  std::optional<double> of_a_sample =
      tokens_of_a_sample(loop, std::min<std::int64_t>(loop.samples, 2));
  if (!of_a_sample) of_a_sample = tokens_of_a_sample(loop, least_samples_of(loop));
  if (!of_a_sample) return std::nullopt;
  if (*of_a_sample <= 0) return loop.samples;
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(tokens) / *of_a_sample));
}

std::optional<std::int64_t> samples_of_step(const detail::PlannedLoop& loop,
                                            const LoopPlanOptions& options) {
  if (options.batch_samples > 0) return options.batch_samples;
  if (!is_stated(loop.batch)) return loop.samples;
  const std::int64_t count = count_of(loop.batch);
  return std::holds_alternative<Samples>(loop.batch) ? count : samples_with(count, loop);
}

[[noreturn]] void refuse_the_smallest(const Subject& subject, const LoopPlanOptions& options) {
  memory::PlanQuestion question =
      question_of(subject, memory::tensor_budget(), options.reserve_bytes);
  if (!question.is_budget) question.limit_bytes = train::preferred_limit(question.resident);
  train::refuse_resident_bytes(question);
}

/// Checks the loss function, for which memory may run out.
void check_within_memory(const detail::PlannedLoop& loop) {
  try {
    train::check_loss_function(kPlan, loop.model, loop.run, loop.samples);
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
  }
}

}  // namespace

namespace detail {

at::Tensor repeated(const at::Tensor& batch, std::int64_t samples) {
  const at::Tensor rows = at::arange(samples, at::TensorOptions(at::kLong).device(batch.device()));
  return batch.index_select(0, rows.remainder(batch.size(0)));
}

std::vector<at::Tensor> repeated(const std::vector<at::Tensor>& batch, std::int64_t samples) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : batch) all.push_back(repeated(tensor, samples));
  return all;
}

void refuse_plan_in_window() {
  throw usage_error(kPlan, "no open window", "one with micro-batches pending",
                    "step(), finish() or discard() before it");
}

LoopPlan plan_loop(const PlannedLoop& loop, const LoopPlanOptions& options) {
  train::check_batch(kPlan, loop.samples, 0);
  check_within_memory(loop);
  Subject subject{.parameters = loop.model.parameters,
                  .buffers = loop.model.buffers,
                  .sums = loop.sums,
                  .pass = [&](accum::Window& window, std::int64_t samples,
                              Recompute) { run_module(window, loop.run, samples); },
                  .least_samples = least_samples_of(loop),
                  .most_samples = loop.repeats ? 0 : loop.samples};
  const std::optional<std::int64_t> batch_samples = samples_of_step(loop, options);
  if (!batch_samples) refuse_the_smallest(subject, options);
  subject.batch_samples = *batch_samples;
  LoopPlan plan = plan_subject(subject, options);
  plan.recompute_reason =
      "a module is run as a whole, which leaves no cuts to recompute from; a models::Trainable has "
      "them";
  return plan;
}

}  // namespace detail

LoopPlan plan(models::Trainable& model, const batch::MicroBatch& batch,
              const LoopPlanOptions& options) {
  const std::int64_t samples = batch_size(batch);
  train::check_batch(kPlan, samples, 0);
  std::vector<at::Tensor> buffers;
  for (const NamedParameter& buffer : model.buffers()) buffers.push_back(buffer.tensor);
  const bool has_cuts = model.segments().size() > 1;
  const bool takes_statistics = !models::find_batch_norms(model).none();
  Subject subject{.parameters = model.parameters(),
                  .buffers = buffers,
                  .pass =
                      [&](accum::Window& window, std::int64_t size, Recompute recompute) {
                        const batch::MicroBatch micro = batch_slice(batch, 0, size);
                        train::run_micro_batch(
                            window, model, {.index = 0, .sample_ids = micro.sample_ids}, micro,
                            batch::training_context(micro, 0, 0),
                            {.factors = std::vector<double>(model.losses().size(), 1.0),
                             .recompute = recompute});
                      },
                  .least_samples = fewest_of(samples, takes_statistics),
                  .most_samples = samples,
                  .batch_samples = options.batch_samples > 0 ? options.batch_samples : samples};
  if (has_cuts) subject.modes = {Recompute::none, Recompute::selective, Recompute::full};
  LoopPlan plan = plan_subject(subject, options);
  if (!has_cuts) plan.recompute_reason = "the model is one segment, which has no cuts";
  return plan;
}

}  // namespace accrue
