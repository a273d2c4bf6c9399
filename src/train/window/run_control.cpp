#include "train/window/run_control.h"

#include <optional>
#include <string>
#include <utility>

namespace accrue::train {

void RunControl::follow_budget() {
  if (budget_ == nullptr) return;
  const std::optional<std::int64_t> before = memory::budget();
  if (const auto reason = memory::follow_budget(*budget_))
    log_->event_of_this_rank("budget", *reason);
  const std::optional<std::int64_t> now = memory::budget();
  budget_was_raised_ |= before && (!now || *now > *before);
}

bool RunControl::take_raised_budget() { return std::exchange(budget_was_raised_, false); }

}  // namespace accrue::train
