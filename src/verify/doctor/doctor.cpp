#include "verify/doctor/doctor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "data/loader.h"
#include "kernels/gemm/gemm.h"
#include "memory/out_of_memory.h"
#include "memory/thread_meter.h"
#include "train/limits/limit_file.h"
#include "train/pass/forward_backward.h"
#include "train/pass/run_micro_batch.h"
#include "train/plan/acceleration.h"
#include "train/plan/batch_norm_values.h"
#include "train/plan/plan_choice.h"
#include "train/plan/setup.h"
#include "train/workload/batch_changes.h"
#include "train/workload/held_out_remarks.h"
#include "train/workload/workload.h"
#include "verify/doctor/first_steps.h"
#include "verify/free_bytes.h"

namespace accrue::proof {
namespace {

constexpr int timed_passes = 3;

void take_model(const train::Workload& work, RunFacts& facts) {
  const models::BatchNorms norms = models::find_batch_norms(*work.model);
  facts.cut_batch_norms = norms.cut;
  for (const models::ForeignLayer& layer : norms.uncut)
    facts.uncut_batch_norms.push_back(layer.name);
  facts.parameters = models::parameter_count(*work.model);
}

/// Includes those that passes have shown to depend on the split.
void take_dropouts(const models::Model& model, RunFacts& facts) {
  for (const models::ForeignLayer& layer : model.foreign_layers())
    if (layer.kind == models::ForeignLayer::Kind::dropout)
      facts.foreign_dropouts.push_back(layer.name);
}

/// A window ends with its epoch, even if the batch is larger; 0 if samples differ in
/// length.
std::int64_t stated_samples(const train::Workload& work) {
  const std::int64_t tokens = work.schedule.tokens_per_sample;
  if (work.config.batch.samples) return *work.config.batch.samples;
  return tokens > 0 ? work.config.batch.tokens.value_or(0) / tokens : 0;
}

void take_shape(const train::Workload& work, const ShowProgress& show, RunFacts& facts) {
  const batch::WindowSchedule& schedule = work.schedule;
  facts.train_samples = work.data.train->size();
  facts.val_samples = work.data.val ? work.data.val->size() : 0;
  facts.data_remarks = work.data.train->remarks();
  for (std::string& remark : train::held_out_remarks(work.config, work.data))
    facts.data_remarks.push_back(std::move(remark));
  facts.batch_samples = std::max(schedule.samples_per_window, stated_samples(work));
  if (work.config.batch.changes_as_stated())
    facts.batch_samples =
        train::largest_stated_samples(work.config, train::sample_facts(*work.data.train))
            .value_or(facts.batch_samples);
  facts.steps_per_epoch = schedule.windows_per_epoch();
  facts.total_steps = train::total_windows(work.config, schedule);
  const std::int64_t window = schedule.window(0).size();
  facts.batch_tokens = static_cast<double>(schedule.tokens(0));
  const train::MicroDecision plan = train::choose_micro_batch(work, show);
  facts.micro_batch = std::min(plan.samples, window);
  facts.recompute = plan.recompute;
  train::expect_values_for_batch_norm(work, facts.micro_batch);
  facts.micro_batches = (window + facts.micro_batch - 1) / facts.micro_batch;
}

/// Reads limits from files. Commands are not run, since the config is only examined.
void take_limits(const std::vector<train::Limit>& limits, RunFacts& facts) {
  for (const train::Limit& limit : limits) {
    LimitFact fact{.limit = limit, .reading = {}};
    if (limit.command.empty()) fact.reading = train::read_limit_file(limit);
    facts.limits.push_back(std::move(fact));
  }
}

/// Targets of a batch and the weight of those that count, from the labels alone.
void take_labels(const batch::MicroBatch& micro, RunFacts& facts) {
  if (!micro.targets.defined()) return;  // the loss defines what counts
  const at::Tensor counts = micro.targets.ne(-100);
  const at::Tensor weights = micro.weights.defined() ? micro.weights * counts : counts;
  facts.first_terms += static_cast<double>(micro.targets.numel());
  facts.first_weight += weights.sum(at::kDouble).item<double>();
}

/// Times forward and backward passes of one micro-batch.
class Timer {
 public:
  Timer(models::Model& model, const train::Config& config, Recompute recompute)
      : model_(model), config_(config), recompute_(recompute), window_(buffer_of(model)) {}

  Speed measure(const batch::MicroBatch& micro) {
    const auto samples = static_cast<std::int64_t>(micro.sample_ids.size());
    run(micro);  // workspaces and copies of the weights are made once
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < timed_passes; ++i) best = std::min(best, run(micro));
    return {samples, static_cast<double>(samples) / best};
  }

  std::int64_t bytes(const batch::MicroBatch& micro) {
    run(micro);
    const memory::ThreadMeter meter;
    run(micro);
    return std::max<std::int64_t>(1, meter.peak());
  }

 private:
  static std::shared_ptr<accum::GradientBuffer> buffer_of(const models::Model& model) {
    return std::make_shared<accum::GradientBuffer>(model.parameters());
  }

  double run(const batch::MicroBatch& micro) {
    window_.open(0);
    const Stopwatch watch;
    const train::MicroBatchRun run = train::run_micro_batch(
        window_, model_, {.index = 0, .sample_ids = micro.sample_ids}, micro,
        batch::training_context(micro, config_.run.seed, 0), {.recompute = recompute_});
    const double seconds = watch.seconds();
    window_.discard();
    if (run.pass.finite) return seconds;
    throw usage_error("doctor", "a finite loss of the first micro-batch", "one that is not",
                      "looking at its data");
  }

  models::Model& model_;
  const train::Config& config_;
  Recompute recompute_;
  accum::Window window_;
};

/// Returns the result of `measure`; nothing if memory runs out: the run itself does not need it.
template <typename Measure>
auto unless_memory_runs_out(Measure measure) -> std::optional<decltype(measure())> {
  try {
    return measure();
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    memory::release_cached();
    return std::nullopt;
  }
}

/// Speed in another precision. Throws a usage Error if the model does not support it.
double speed_in(models::Compute compute, const train::Workload& work, Recompute recompute,
                const batch::MicroBatch& micro) {
  train::Config config = work.config;
  config.precision.compute = compute;
  const std::unique_ptr<models::Model> model = train::make_model(config);
  return Timer(*model, config, recompute).measure(micro).samples_per_second;
}

class Measurements {
 public:
  Measurements(const train::Workload& work, const DoctorOptions& options, RunFacts& facts)
      : work_(work),
        options_(options),
        facts_(facts),
        loader_(work.data.train, train::make_sampler(work.config, *work.data.train)),
        window_(work.schedule.window(0)) {}

  void take() {
    tell("labels of the first batch");
    for (const batch::Range part : batch::split(window_, facts_.micro_batch))
      take_labels(loader_.fetch(part), facts_);
    if (facts_.first_weight == 0) return;  // there is nothing to differentiate
    tell("speed of a micro-batch of " + std::to_string(facts_.micro_batch));
    const batch::MicroBatch micro = first(facts_.micro_batch);
    Timer timer(*work_.model, work_.config, facts_.recompute);
    facts_.speed = timer.measure(micro);
    take_larger(timer);
    take_precisions(micro);
  }

 private:
  batch::MicroBatch first(std::int64_t samples) const {
    return loader_.fetch_full({window_.begin, std::min(window_.end, window_.begin + samples)});
  }

  /// The plan has tried other micro-batches, unless the config states one.
  void take_larger(Timer& timer) {
    if (facts_.micro_batches < 2 || !work_.config.batch.micro) return;
    const std::int64_t bytes = timer.bytes(first(facts_.micro_batch)) / facts_.micro_batch + 1;
    const std::int64_t fitting = free_bytes() / 2 / bytes;
    // Four times as many show whether it pays; more would only take longer to measure.
    const std::int64_t larger = std::min({window_.size(), fitting, 4 * facts_.micro_batch});
    if (larger <= facts_.micro_batch) return;
    tell("speed of a micro-batch of " + std::to_string(larger));
    facts_.larger_speed = unless_memory_runs_out([&] { return timer.measure(first(larger)); });
  }

  void take_precisions(const batch::MicroBatch& micro) {
    facts_.bf16_instructions = kernels::multiplies_bf16();
    using models::Compute;
    const Compute compute = work_.config.precision.compute;
    if (compute == Compute::fp64 || compute == Compute::fp16 ||
        (compute == Compute::fp32 && !facts_.bf16_instructions))
      return;
    const Compute other = compute == Compute::fp32 ? Compute::bf16 : Compute::fp32;
    tell("speed in " + std::string(to_string(other)));
    const std::optional<double> speed = speed_if_there_is(other, micro);
    (compute == Compute::fp32 ? facts_.fp32_samples_per_second : facts_.bf16_samples_per_second) =
        facts_.speed->samples_per_second;
    (compute == Compute::fp32 ? facts_.bf16_samples_per_second : facts_.fp32_samples_per_second) =
        speed;
  }

  std::optional<double> speed_if_there_is(models::Compute compute,
                                          const batch::MicroBatch& micro) const {
    try {
      return unless_memory_runs_out(
          [&] { return speed_in(compute, work_, facts_.recompute, micro); });
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  const train::Workload& work_;
  const DoctorOptions& options_;
  RunFacts& facts_;
  data::Loader loader_;
  batch::Range window_;
};

/// A larger micro-batch was timed without an optimizer's state beside it; what the planner would
/// refuse is no advice.
void leave_what_may_be_planned(const train::Workload& work, RunFacts& facts) {
  if (!facts.larger_speed) return;
  const memory::PlanPoint larger{facts.larger_speed->micro_batch, facts.recompute};
  if (!train::may_be_planned(work, larger)) facts.larger_speed.reset();
}

}  // namespace

Examination doctor(const train::Config& config, const DoctorOptions& options) {
  train::use_resources(config);
  train::Workload work = train::open_workload(config, options.show);
  train::decide_acceleration(work);
  Examination result;
  result.facts.config = work.config;
  take_limits(config.run.limits, result.facts);
  take_model(work, result.facts);
  take_shape(work, options.show, result.facts);
  Measurements(work, options, result.facts).take();
  leave_what_may_be_planned(work, result.facts);
  take_dropouts(*work.model, result.facts);
  if (options.progress) options.progress("noise and losses of the first steps");
  take_first_steps(result.facts);
  result.findings = examine(result.facts);
  return result;
}

}  // namespace accrue::proof
