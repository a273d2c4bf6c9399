#include "train/plan/reported_trials.h"

#include <utility>

namespace accrue::train {

memory::Trial reported_trials(PlanTrials& trials,
                              std::function<void(const std::string& what)> tell) {
  return
      [&trials, tell = std::move(tell), repeats = false](const memory::PlanPoint& point) mutable {
        if (tell && !repeats) {
          repeats = trials.has_run(point);
          tell(repeats ? "timing them again, in turn" : "trying " + memory::describe(point));
        }
        return trials.run(point);
      };
}

}  // namespace accrue::train
