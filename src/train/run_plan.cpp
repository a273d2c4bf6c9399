#include "run_plan.h"

#include "accrue/core/units.h"

namespace accrue::train {

RunPlan make_plan(const Config& config, const Datasets& data, const NamedParameters& parameters,
                  std::int64_t micro_batch, std::string micro_reason) {
  const batch::WindowSchedule schedule = make_window_schedule(config, data.train->size());
  RunPlan plan;
  for (const NamedParameter& parameter : parameters) plan.parameters += parameter.tensor.numel();
  plan.train_samples = data.train->size();
  plan.val_samples = data.val ? data.val->size() : 0;
  plan.batch_samples = schedule.samples_per_window;
  plan.batch_tokens = plan.batch_samples * config.model.context;
  plan.micro_batch = std::min(micro_batch, plan.batch_samples);
  plan.micro_batches = (plan.batch_samples + plan.micro_batch - 1) / plan.micro_batch;
  plan.steps_per_epoch = schedule.windows_per_epoch();
  plan.total_steps = total_windows(config, schedule);
  plan.micro_reason = std::move(micro_reason);
  return plan;
}

std::string summarise(const Config& config, const RunPlan& plan) {
  return config.model.kind + ", " + format_count(static_cast<double>(plan.parameters)) +
         " parameters, " + config.precision.compute + "; batch of " +
         std::to_string(plan.batch_tokens) + " tokens = " + std::to_string(plan.micro_batches) +
         " micro-batches of " + std::to_string(plan.micro_batch) + " x " +
         std::to_string(config.model.context) + "; " + std::to_string(plan.total_steps) +
         " steps (" + std::to_string(plan.steps_per_epoch) + " an epoch)";
}

Horizon make_horizon(const RunPlan& plan) {
  return {.total_steps = plan.total_steps,
          .tokens_per_step = static_cast<double>(plan.batch_tokens),
          .steps_per_epoch = static_cast<double>(plan.steps_per_epoch)};
}

}  // namespace accrue::train
