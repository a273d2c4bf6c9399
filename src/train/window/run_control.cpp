#include "train/window/run_control.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "accrue/core/clock.h"

namespace accrue::train {

void RunControl::heed(LimitWatch& limits, const NoticeWatch& notice,
                      std::optional<double> patience) {
  limits_ = &limits;
  notice_ = &notice;
  may_pause_ = !patience;
  if (patience) rest_.bound(*patience);
}

void RunControl::follow() {
  follow_budget();
  follow_limits();
}

void RunControl::follow_budget() {
  if (budget_ == nullptr) return;
  const std::optional<std::int64_t> before = memory::budget();
  if (const auto reason = memory::follow_budget(*budget_))
    log_->event_of_this_rank("budget", *reason);
  const std::optional<std::int64_t> now = memory::budget();
  budget_was_raised_ |= before && (!now || *now > *before);
}

void RunControl::follow_limits() {
  if (limits_ == nullptr) return;
  for (const std::string& change : limits_->follow()) log_->event_of_this_rank("limits", change);
  if (limits_->take_notice()) notice_->give();
}

bool RunControl::take_raised_budget() { return std::exchange(budget_was_raised_, false); }

bool RunControl::asked_to_stop() const {
  return (signals_ != nullptr && signals_->interrupted()) ||
         (limits_ != nullptr && limits_->asks_to_stop());
}

void RunControl::worked(double seconds) {
  const double speed = allowed_speed();
  if (speed > 0) rest_.work(seconds, speed);
}

bool RunControl::waits() {
  constexpr double kMoment = 0.1;
  const double speed = allowed_speed();
  const bool pauses = may_pause_ && speed == 0;
  if (speed == 1) rest_.forgive();
  if ((!pauses && rest_.owed() == 0) || asked_to_stop()) return false;
  const Stopwatch waiting;
  std::this_thread::sleep_for(
      std::chrono::duration<double>(pauses ? kMoment : std::min(kMoment, rest_.owed())));
  const double seconds = waiting.seconds();
  rest_.rest(seconds);
  waited_seconds_ += seconds;
  return true;
}

void RunControl::wait_out() {
  follow();
  while (waits()) follow();
}

}  // namespace accrue::train
