#include "train/plan/plan.h"

#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/offload.h"
#include "accrue/models/normalisation.h"
#include "memory/disk_rates.h"
#include "memory/out_of_memory.h"
#include "train/plan/acceleration.h"
#include "train/plan/batch_norm_values.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/memory_advice.h"
#include "train/plan/plan_choice.h"
#include "train/plan/reported_trials.h"
#include "train/plan/setup.h"
#include "train/plan/storage.h"

namespace accrue::train {
namespace {

/// The longest micro-batch, in seconds, that is tried only to show an alternative.
constexpr double longest_seconds_shown = 20;

bool has_bf16(const Config& config) {
  return config.precision.compute == models::Compute::fp32 &&
         (is_language_model(config.model.kind) || config.model.kind == ModelKind::vit);
}

/// Measures the plan in bf16; none if it does not fit, as its copies of the weights may not.
std::optional<Bf16Twin> measure_bf16(Config config, const memory::PlanEntry& chosen) {
  if (!has_bf16(config) || chosen.micro_batch_seconds > longest_seconds_shown) return std::nullopt;
  config.precision.compute = models::Compute::bf16;
  try {
    const Workload twin = open_workload(std::move(config));
    const memory::Measured measured = PlanTrials(twin).run(chosen.point);
    if (!measured.fits) return std::nullopt;
    return Bf16Twin{.peak_bytes = measured.peak_bytes,
                    .micro_batch_seconds = without_wait(measured).seconds};
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    return std::nullopt;
  }
}

/// Plans, and runs the plan. If it runs out of memory, that becomes another fact for the next plan,
/// until one fits or memory::plan refuses.
void plan_and_run(PlanTrials& trials, const PlanRunOptions& options, PlanReport& report) {
  for (;;) {
    remeasure_beyond_budget(
        [&](const memory::PlanPoint& point) { return trials.measure_again(point); },
        report.question, report.facts);
    report.plan = memory::plan(without_waits(report.facts), report.question);
    const memory::PlanPoint& point = report.plan.chosen.point;
    if (options.progress) options.progress("running the plan: " + memory::describe(point));
    const PlanTrials::Step step = trials.run_step(point);
    if (step.micro.fits) {
      report.measured = without_wait(step.micro);
      report.closing_seconds = step.closing_seconds;
      return;
    }
    report.facts.push_back({point, step.micro});
  }
}

/// Whether the traffic of a step is known: that of a run whose state is offloaded, and all of whose
/// parameters are trained.
bool has_forecast(const Workload& work) {
  const ModelConfig& model = work.config.model;
  return work.offload && !model.lora.is_on() && model.freeze.empty();
}

/// Measures the disk, and predicts the full window of the plan and of its alternatives.
void add_forecast(const Workload& work, PlanReport& report) {
  memory::leave_memory();  // what the trials left to be written would slow the measurement
  const std::string& folder = work.config.memory.offload;
  const OffloadedWindow window{
      .traffic = offload_traffic(storage_of(work.config)),
      .parameters = models::parameter_count(*work.model),
      .rates = memory::measure_disk_rates(folder),
      .sample_seconds =
          compute_seconds_of_sample(without_waits(report.facts), report.plan.chosen.point.recompute)
              .value_or(0),
      .samples = report.question.window_samples};
  report.offload = forecast_offload(window);
  report.offload->folder = folder;
  for (memory::PlanEntry& entry : report.plan.alternatives)
    entry.window_seconds = seconds_of_passes(window, entry.window_seconds);
}

PlanReport plan_workload(const Workload& work, const PlanRunOptions& options) {
  PlanReport report{.question = plan_question(work)};
  const std::unique_ptr<PlanTrials> trials = begin_trials(work, report.question);
  report.facts = memory::measure(reported_trials(*trials, options.progress), report.question,
                                 {.longest_seconds = longest_seconds_shown, .all_modes = true});
  report.question.resident = trials->resident();
  plan_and_run(*trials, options, report);
  if (has_forecast(work)) add_forecast(work, report);
  return report;
}

}  // namespace

PlanReport plan_run(const Config& config, const PlanRunOptions& options) {
  use_resources(config);
  Config resolved;
  PlanReport report;
  {
    Workload work =
        open_within_memory(with_whole_batch(config, options.ranks), options.ranks, options.show);
    work.ranks = ranks_that_share(config, options.ranks);
    models::check_batch_norms(*work.model, work.config.model.batchnorm);
    decide_acceleration(work);
    report = plan_workload(work, options);
    expect_values_for_batch_norm(work, report.plan.chosen.point.micro_batch);
    report.parameters = models::parameter_count(*work.model);
    report.batch_tokens = tokens_of_window(work);
    report.remarks = remarks_of(work);
    report.effective =
        effective_batch(work, std::vector<std::int64_t>(static_cast<std::size_t>(work.ranks),
                                                        report.plan.chosen.point.micro_batch));
    resolved = work.config;
  }
  memory::release_cached();
  report.bf16 = measure_bf16(std::move(resolved), report.plan.chosen);
  return report;
}

}  // namespace accrue::train
