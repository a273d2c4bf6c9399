#pragma once

#include <cstdint>

#include "accrue/core/enum_words.h"

namespace accrue::optim {

enum class ScheduleKind { constant, linear, cosine };
/// The words of optim.schedule.kind, the default first.
inline constexpr auto schedule_kind_words =
    enum_words<ScheduleKind>({{ScheduleKind::cosine, "cosine"},
                              {ScheduleKind::linear, "linear"},
                              {ScheduleKind::constant, "constant"}});

/// The learning rate as a pure function of the optimizer step. Linear warm-up over `warmup` steps
/// (step s of it has peak * (s + 1) / warmup), then constant, or falling to `min_lr`, linearly or
/// as half a cosine (Loshchilov and Hutter, arXiv:1608.03983). The last step that is no warm-up has
/// `min_lr`, also where it is the only one behind the warm-up; a run of one step has the peak.
struct LearningRate {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 3e-4;
  double min_lr = 0;
  std::int64_t warmup = 0;
  std::int64_t total_steps = 1;

  /// The rate of optimizer step `step`, 0-based. Beyond the horizon it keeps its last value (a
  /// constant rate has no horizon). A run that ends within its warm-up never reaches the peak.
  /// Throws a usage Error where a field makes no sense: min_lr above the peak, a negative warm-up,
  /// no step.
  double at(std::int64_t step) const { return at(step, step + 1); }
  /// The same of a step that takes [begin, end) of what the run counts, where `warmup` counts it,
  /// too, and total_steps - 1 is where the last step begins: tokens, say, where steps hold more and
  /// more of them.
  double at(std::int64_t begin, std::int64_t end) const;
};

enum class ScaleRule { none, linear, sqrt };
/// The words of optim.scale_lr.
inline constexpr auto scale_rule_words = enum_words<ScaleRule>(
    {{ScaleRule::none, "none"}, {ScaleRule::linear, "linear"}, {ScaleRule::sqrt, "sqrt"}});

/// The learning rate for `batch` where `lr` was found for `base_batch`: times batch/base_batch
/// (Goyal et al., arXiv:1706.02677), its square root, or unchanged. Both in the same unit, > 0.
double scale_learning_rate(double lr, ScaleRule rule, std::int64_t batch, std::int64_t base_batch);

}  // namespace accrue::optim
