#include "train/run/run_observers.h"

#include <utility>

#include "observe/jsonl_sink.h"
#include "observe/progress_sink.h"

namespace accrue::train {

void RunObservers::start_reporting(const std::vector<std::shared_ptr<Observer>>& sinks) {
  of_steps_ = added_;
  of_steps_.insert(of_steps_.end(), sinks.begin(), sinks.end());
  tell(std::exchange(kept_, {}));
}

void RunObservers::report_or_keep(const Event& event,
                                  std::optional<observe::ProgressStyle> progress) {
  if (!of_steps_.empty()) return tell({&event, 1});
  observe::ProgressSink(progress).on_event(event);
  kept_.push_back(event);
}

void RunObservers::tell(std::span<const Event> events) const {
  for (const Event& event : events)
    for (const std::shared_ptr<Observer>& observer : of_steps_.empty() ? added_ : of_steps_)
      observer->on_event(event);
}

void RunObservers::report_if_missing(const std::optional<StepReport>& last,
                                     const std::filesystem::path& metrics) const {
  if (!last || observe::has_step(metrics, last->step)) return;
  for (const std::shared_ptr<Observer>& observer : of_steps_) observer->on_step(*last);
}

void RunObservers::roll_back(std::int64_t step) const {
  for (const std::shared_ptr<Observer>& observer : of_steps_) observer->on_rollback(step);
}

}  // namespace accrue::train
