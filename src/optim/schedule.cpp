#include "accrue/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "accrue/core/error.h"

namespace accrue::optim {
namespace {

void require(bool holds, const char* expected, const std::string& received,
             const char* suggestion) {
  if (!holds) throw usage_error("learning rate schedule", expected, received, suggestion);
}

void validate(const LearningRate& schedule) {
  require(std::isfinite(schedule.peak) && schedule.peak >= 0,
          "a peak learning rate that is finite and not negative", std::to_string(schedule.peak),
          "one such as 3e-4");
  require(schedule.min_lr >= 0 && schedule.min_lr <= schedule.peak,
          "a minimal learning rate between 0 and the peak",
          std::to_string(schedule.min_lr) + " with peak " + std::to_string(schedule.peak),
          "a tenth of the peak");
  require(schedule.warmup >= 0, "a warm-up of 0 steps or more", std::to_string(schedule.warmup),
          "0 for none");
  require(schedule.total_steps >= 1, "a horizon of at least one step",
          std::to_string(schedule.total_steps), "the run's length");
}

double half_cosine(double progress) { return (1 + std::cos(std::numbers::pi * progress)) / 2; }

}  // namespace

std::optional<double> LearningRate::left(std::int64_t begin) const {
  if (kind == ScheduleKind::constant || begin < warmup) return std::nullopt;
  const bool is_of_last_step = version == ScheduleVersion::min_in_last_step;
  if (is_of_last_step && total_steps == 1) return std::nullopt;
  const std::int64_t end = is_of_last_step ? total_steps - 1 : total_steps;
  if (begin >= end) return 0;
  const double progress = static_cast<double>(begin - warmup) / static_cast<double>(end - warmup);
  return kind == ScheduleKind::linear ? 1 - progress : half_cosine(progress);
}

double LearningRate::at(std::int64_t begin, std::int64_t end) const {
  validate(*this);
  require(begin >= 0, "a step of 0 or more", std::to_string(begin), "counting steps from 0");
  const std::int64_t last = total_steps - 1;
  // A constant rate has no horizon, so nothing limits its warm-up.
  if (kind != ScheduleKind::constant && last < warmup && begin > last) {
    end -= begin - last;
    begin = last;
  }
  if (begin < warmup)
    return peak * static_cast<double>(std::min(end, warmup)) / static_cast<double>(warmup);
  const std::optional<double> part = left(begin);
  return part ? min_lr + (peak - min_lr) * *part : peak;
}

double scale_learning_rate(double lr, ScaleRule rule, std::int64_t batch, std::int64_t base_batch) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw usage_error("scale learning rate", "a rate that is finite and not negative",
                      std::to_string(lr), "one such as 3e-4");
  if (rule == ScaleRule::none) return lr;
  if (batch <= 0 || base_batch <= 0)
    throw usage_error("scale learning rate", "a batch and a base batch above 0",
                      std::to_string(batch) + " and " + std::to_string(base_batch),
                      "stating both in the same unit");
  const double ratio = static_cast<double>(batch) / static_cast<double>(base_batch);
  return lr * (rule == ScaleRule::linear ? ratio : std::sqrt(ratio));
}

}  // namespace accrue::optim
