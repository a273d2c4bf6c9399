#pragma once

#include <cstdint>
#include <optional>

#include "accrue/core/enum_words.h"

namespace accrue::optim {

enum class ScheduleKind { constant, linear, cosine };
/// The words of optim.schedule.kind, the default first.
inline constexpr auto schedule_kind_words =
    enum_words<ScheduleKind>({{ScheduleKind::cosine, "cosine"},
                              {ScheduleKind::linear, "linear"},
                              {ScheduleKind::constant, "constant"}});

/// The rule with which a run was started. A run keeps its rule (state.json, "schedule").
enum class ScheduleVersion {
  /// The last step has min_lr, and a group with its own rate falls to its part of min_lr.
  min_in_last_step = 1,
  /// The step after the last one would have min_lr, which is the floor of all groups.
  min_after_last_step = 2,
};

/// How far a schedule has fallen, for groups with their own rate: each falls from its peak to the
/// same floor.
struct RateFall {
  double peak = 0;
  double floor = 0;
  double left = 1;  ///< the fraction of the way from the peak to the floor that is left

  /// The rate of a group whose peak is `factor` times the schedule's.
  double rate(double factor) const { return floor + (factor * peak - floor) * left; }
  bool operator==(const RateFall&) const = default;
};

/// The learning rate as a pure function of the optimizer step: linear warm-up over `warmup` steps
/// (step s has peak * (s + 1) / warmup), then constant, or falling to `min_lr`, linearly or as half
/// a cosine (Loshchilov and Hutter, arXiv:1608.03983). The first step after the warm-up has the
/// peak. Step `total_steps`, which a run does not take, would have `min_lr`, as in PyTorch's
/// CosineAnnealingLR with T_max = total_steps - warmup.
struct LearningRate {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 3e-4;
  double min_lr = 0;
  std::int64_t warmup = 0;
  std::int64_t total_steps = 1;
  ScheduleVersion version = ScheduleVersion::min_after_last_step;

  /// The rate of optimizer step `step`, 0-based. Beyond the horizon it is `min_lr` (a constant rate
  /// has no horizon). A run that ends within its warm-up never reaches the peak, and keeps its last
  /// value. Throws a usage Error if a field is invalid: min_lr above the peak, a negative warm-up,
  /// no step.
  double at(std::int64_t step) const { return at(step, step + 1); }
  /// The rate of a step that takes [begin, end) of a unit in which `warmup` and `total_steps` are
  /// counted too: tokens, for example, if steps hold more and more of them. (In min_in_last_step,
  /// total_steps - 1 is the begin of the last step.)
  double at(std::int64_t begin, std::int64_t end) const;
  /// The fraction of the way from the peak to `min_lr` that is left at `begin`; nothing within the
  /// warm-up, and for a constant rate.
  std::optional<double> left(std::int64_t begin) const;
};

enum class ScaleRule { none, linear, sqrt };
/// The words of optim.scale_lr.
inline constexpr auto scale_rule_words = enum_words<ScaleRule>(
    {{ScaleRule::none, "none"}, {ScaleRule::linear, "linear"}, {ScaleRule::sqrt, "sqrt"}});

/// The learning rate for `batch` if `lr` was chosen for `base_batch`: times batch/base_batch (Goyal
/// et al., arXiv:1706.02677), its square root, or unchanged. Both in the same unit, > 0.
double scale_learning_rate(double lr, ScaleRule rule, std::int64_t batch, std::int64_t base_batch);

}  // namespace accrue::optim
