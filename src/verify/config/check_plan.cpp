#include "verify/config/check_plan.h"

#include <algorithm>

namespace accrue::proof {
namespace {

/// A window of less arithmetic takes a fraction of a second, and all checks use all of it.
constexpr double little_work = 1e10;
/// Six windows' work, less a tenth for work that this plan does not count: copies of parameters,
/// comparisons and norms.
constexpr double most_windows = 5.4;
/// The cost of a pass besides its samples, in samples.
constexpr double samples_per_pass = 0.6;
constexpr std::int64_t least_steps = 2, usual_steps = 3, thorough_steps = 5;
constexpr std::int64_t least_subset = 4;

std::vector<std::int64_t> sizes_for(std::int64_t samples) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, (samples + 1) / 2})
    if (size < samples && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  return sizes;
}

/// The cost of running `samples` in micro-batches of `micro`, in samples.
double cost_of(std::int64_t samples, std::int64_t micro) {
  return static_cast<double>(samples) * (1 + samples_per_pass / static_cast<double>(micro));
}

double windows_of(const CheckPlan& plan, const CheckPlanInput& input) {
  const std::int64_t subset = plan.subset;
  const double plain = input.plain_cost * cost_of(subset, subset);
  // A plain pass, its repetition, the noise draws; two passes by accrue's operations, and one of
  // each single operation, by both implementations.
  double samples = (3 + plan.noise_draws) * plain + 4 * cost_of(subset, subset);
  for (const std::int64_t size : plan.sizes) samples += cost_of(subset, size);
  samples += 3 * cost_of(subset, 2);  // other orders
  // Two splits and two references, one of them from a perturbed start.
  samples += static_cast<double>(plan.steps) * (2 * cost_of(subset, 2) + 2 * plain);
  samples += input.plain_cost * cost_of(input.window_samples, input.window_samples);
  const double window = cost_of(input.window_samples, input.micro_batch);
  return 1 + samples / window + input.other_windows;
}

}  // namespace

CheckPlan plan_checks(const CheckPlanInput& input) {
  const std::int64_t all = input.window_samples;
  CheckPlan plan{.subset = all,
                 .sizes = sizes_for(all),
                 .steps = input.thorough ? thorough_steps : usual_steps,
                 .noise_draws = input.thorough ? 3 : 2};
  plan.windows = windows_of(plan, input);
  if (input.thorough || input.flops_per_sample * static_cast<double>(all) <= little_work)
    return plan;

  plan.noise_draws = 1;
  for (plan.steps = usual_steps; plan.steps >= least_steps; --plan.steps)
    for (plan.subset = all; plan.subset >= std::min(all, least_subset); plan.subset /= 2) {
      plan.sizes = sizes_for(plan.subset);
      plan.windows = windows_of(plan, input);
      if (plan.windows <= most_windows) return plan;
    }
  plan.steps = least_steps;
  plan.subset = std::min(all, least_subset);
  plan.sizes = sizes_for(plan.subset);
  plan.windows = windows_of(plan, input);
  return plan;
}

}  // namespace accrue::proof
