#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/core/step_report.h"
#include "train/watch/alarm.h"

namespace accrue::train {

/// Finds steps whose peak in tensors comes near the budget: nearer than what the planner leaves
/// free of it beside all that is reserved for them. So a plan alone never rings, unless training
/// takes more than it measured.
class MemoryPressure {
 public:
  MemoryPressure();

  /// To be told of each step. `tensor_budget` is what the budget leaves to tensors. Returns what
  /// there is to tell, with the suspected cause: the budget itself, where that became smaller since
  /// the first step that was seen, or what grew most since then.
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
