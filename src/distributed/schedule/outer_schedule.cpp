#include "distributed/schedule/outer_schedule.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

[[noreturn]] void refuse(const std::string& expected, const std::string& received,
                         const std::string& suggestion) {
  throw usage_error("outer step", expected, received, suggestion);
}

std::vector<std::int64_t> ends_of(const NamedParameters& parameters) {
  std::vector<std::int64_t> ends;
  std::int64_t end = 0;
  for (const NamedParameter& parameter : parameters)
    ends.push_back(end += parameter.tensor.numel());
  return ends;
}

/// The last parameter of the part that begins with `first` and should end near `target` elements,
/// if `left` parts follow that have at least one parameter each.
std::size_t last_near(const std::vector<std::int64_t>& ends, std::size_t first, double target,
                      std::size_t left) {
  const auto distance = [&](std::size_t i) {
    return std::abs(static_cast<double>(ends[i]) - target);
  };
  std::size_t last = first;
  while (last + 1 + left < ends.size() && distance(last + 1) <= distance(last)) ++last;
  return last;
}

}  // namespace

OuterRates usual_outer_rates(std::int64_t local_steps) {
  if (local_steps == 1) return {};
  return {.lr = local_steps < 16 ? 0.5 : 0.7, .momentum = 0.7};
}

void require_valid(const OuterOptions& options) {
  const std::string others = "another dist.local_steps or dist.outer";
  if (options.local_steps < 1)
    refuse("at least 1 local step", std::to_string(options.local_steps), others);
  if (!std::isfinite(options.lr) || options.lr <= 0)
    refuse("a learning rate above 0", std::to_string(options.lr), others);
  if (!(options.momentum >= 0 && options.momentum < 1))
    refuse("a momentum in [0, 1)", std::to_string(options.momentum), others);
  if (options.parts < 1) refuse("at least 1 part", std::to_string(options.parts), others);
  if (options.delay < 0) refuse("a delay of at least 0", std::to_string(options.delay), others);
  if (options.parts + options.delay > options.local_steps)
    refuse("parts + delay of at most local_steps (" + std::to_string(options.local_steps) +
               "), so that each part is sent after a step of its own and merged within the round",
           std::to_string(options.parts) + " + " + std::to_string(options.delay),
           "longer rounds, fewer parts or less delay");
}

std::vector<OuterPart> divide_in_parts(const NamedParameters& parameters, std::int64_t parts) {
  const auto count = static_cast<std::size_t>(parts);
  if (parameters.size() < count)
    refuse("at most as many parts as parameters (" + std::to_string(parameters.size()) + ")",
           std::to_string(parts), "a smaller dist.outer.parts");
  const std::vector<std::int64_t> ends = ends_of(parameters);
  std::vector<OuterPart> divided;
  for (std::size_t part = 0; part < count; ++part) {
    const std::size_t first = divided.empty() ? 0 : divided.back().last;
    const std::int64_t begin = first == 0 ? 0 : ends[first - 1];
    const double target = static_cast<double>(ends.back()) * static_cast<double>(part + 1) /
                          static_cast<double>(count);
    const std::size_t last = last_near(ends, first, target, count - part - 1) + 1;
    divided.push_back({first, last, begin, ends[last - 1] - begin});
  }
  return divided;
}

OuterSchedule::OuterSchedule(const OuterOptions& options)
    : local_steps_(options.local_steps), parts_(options.parts), delay_(options.delay) {
  require_valid(options);
}

std::optional<std::size_t> OuterSchedule::sent_after(std::int64_t steps) const {
  return part_sent_at(step_of_round(steps));
}

std::optional<std::size_t> OuterSchedule::merged_after(std::int64_t steps) const {
  return part_sent_at(step_of_round(steps) - delay_);
}

/// The inverse of the formula in the header: floor(step P / W) parts are sent by `step`, of the W
/// steps in which parts are sent, and the last of them is sent now if its own step is this one.
std::optional<std::size_t> OuterSchedule::part_sent_at(std::int64_t step) const {
  const std::int64_t sending = local_steps_ - delay_;
  if (step < 1 || step > sending) return std::nullopt;
  const std::int64_t sent = step * parts_ / sending;
  const bool is_step_of_last = (sent * sending + parts_ - 1) / parts_ == step;
  if (sent == 0 || !is_step_of_last) return std::nullopt;
  return static_cast<std::size_t>(sent - 1);
}

}  // namespace accrue::distributed
