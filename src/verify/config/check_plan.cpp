#include "verify/config/check_plan.h"

#include <algorithm>

namespace accrue::proof {
namespace {

/// A window faster than this is cheap enough to do everything with all of it.
constexpr double cheap_window_seconds = 0.25;
/// A tenth of a window's time and more is lost to what no plan sees: copies, comparisons, norms.
constexpr double most_windows = 5;
/// What a pass costs beside its samples, in samples.
constexpr double samples_per_pass = 0.6;

std::vector<std::int64_t> sizes_for(std::int64_t samples) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, (samples + 1) / 2})
    if (size < samples && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  return sizes;
}

/// What running `samples` in micro-batches of `micro` costs, in samples.
double cost_of(std::int64_t samples, std::int64_t micro) {
  return static_cast<double>(samples) * (1 + samples_per_pass / static_cast<double>(micro));
}

double windows_of(const CheckPlan& plan, const CheckPlanInput& input) {
  const std::int64_t subset = plan.subset;
  // One pass, that pass again, and the draws of noise.
  double samples = (2 + plan.noise_draws) * cost_of(subset, subset);
  for (const std::int64_t size : plan.sizes) samples += cost_of(subset, size);
  if (plan.orders) samples += 3 * cost_of(subset, 2);
  // Two splits from the same start, and one of them from a perturbed start.
  samples += static_cast<double>(3 * plan.steps) * cost_of(subset, 2);
  const double whole = cost_of(input.window_samples, input.window_samples) +
                       cost_of(input.window_samples, input.micro_batch);
  const double window = cost_of(input.window_samples, input.micro_batch);
  return (samples + whole) / window + static_cast<double>(input.other_windows);
}

}  // namespace

CheckPlan plan_checks(const CheckPlanInput& input) {
  CheckPlan plan{
      .subset = input.window_samples, .sizes = sizes_for(input.window_samples), .noise_draws = 2};
  plan.windows = windows_of(plan, input);
  if (input.window_seconds <= cheap_window_seconds) return plan;

  plan.noise_draws = 1;
  const std::int64_t least = std::min<std::int64_t>(input.window_samples, 4);
  for (const std::int64_t steps : {3, 2, 1, 0})
    for (std::int64_t subset = input.window_samples; subset >= least; subset /= 2) {
      plan.steps = steps;
      plan.orders = steps > 0;
      plan.subset = subset;
      plan.sizes = sizes_for(subset);
      plan.windows = windows_of(plan, input);
      if (plan.windows <= most_windows) return plan;
    }
  // A window of a few samples: one other split of it is what there is time for.
  plan.subset = least;
  plan.sizes = {1};
  plan.windows = windows_of(plan, input);
  return plan;
}

}  // namespace accrue::proof
