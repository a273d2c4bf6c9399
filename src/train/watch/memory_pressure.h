#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/core/step_report.h"
#include "train/watch/alarm.h"

namespace accrue::train {

/// Finds steps whose peak in tensors comes near the budget: nearer than the margin that the planner
/// keeps free in addition to the memory reserved for tensors. So a plan alone never triggers it,
/// only training that takes more than was measured.
class MemoryPressure {
 public:
  MemoryPressure();

  /// Call it with each step. `tensor_budget` is the part of the budget for tensors. Returns a
  /// remark with the suspected cause: the budget itself, if that became smaller since the first
  /// step seen, or what grew most since then.
  std::optional<std::string> observe(const StepReport& step,
                                     std::optional<std::int64_t> tensor_budget);

 private:
  struct Seen {
    std::int64_t step = 0, peak = 0, budget = 0;
    MemoryByKind memory;
  };

  static std::string cause_of(const Seen& now, const Seen& first);

  Alarm alarm_;
  std::optional<Seen> first_;
};

}  // namespace accrue::train
