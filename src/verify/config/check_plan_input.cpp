#include "verify/config/check_plan_input.h"

namespace accrue::proof {
namespace {

/// The cost of a plain pass relative to one of training; in bf16 its products are fp32's.
constexpr double plain_cost = 1.8, plain_cost_in_bf16 = 3.6;
/// The cost of a window's micro-batches in separate passes, in windows.
constexpr double each_by_itself_cost = 1.6;
/// For a model of unknown arithmetic: the number of multiplications per parameter in a pass.
constexpr double uses_of_a_parameter = 64;

double flops_per_sample(const models::Model& model) {
  const auto told = static_cast<double>(model.flops_per_sample());
  return told > 0 ? told
                  : 6 * uses_of_a_parameter * static_cast<double>(models::parameter_count(model));
}

}  // namespace

bool is_coarse(const train::Config& config) {
  return is_mixed(config.precision.compute) ||
         config.precision.accumulate == accum::Accumulation::fixed;
}

bool sums_are_bf16(const train::Config& config) {
  return to_string(config.precision.accumulate).starts_with("bf16");
}

bool sums_are_coarse(const train::Config& config) {
  return sums_are_bf16(config) || (config.precision.accumulate == accum::Accumulation::fixed &&
                                   config.precision.compute == models::Compute::fp64);
}

CheckPlanInput plan_input(const train::Workload& work, const WindowToCheck& window) {
  const bool mixed = is_mixed(work.config.precision.compute);
  return {.window_samples = window.samples,
          .micro_batch = window.micro_batch,
          .other_windows = static_cast<double>(window.other_windows) +
                           (is_coarse(work.config) ? each_by_itself_cost : 0),
          .flops_per_sample = flops_per_sample(*work.model),
          .plain_cost = mixed ? plain_cost_in_bf16 : plain_cost,
          .thorough = window.thorough};
}

}  // namespace accrue::proof
