#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/ranks/single_process.h"
#include "train/recorder.h"
#include "train/run/run_window.h"

namespace accrue::train::testing {

/// A runner whose windows are opened, filled and closed as in training, and its reports.
template <class R>
class DrivenRunner {
 public:
  /// All are kept by reference. `recovery` may be null for no retries.
  DrivenRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
               std::uint64_t run_seed, RunnerOptions options = {},
               memory::Recovery* recovery = nullptr, memory::Retries::Advice advice = {})
      : window_(window),
        retries_(recovery, std::move(advice)),
        runner_({model, window, loader, run_seed, log_, control_, retries_}, std::move(options)) {}

  WindowRun run(WindowRequest request) {
    return run_window({window_, runner_, alone_, retries_, log_}, std::move(request));
  }
  WindowRun run(std::int64_t index, batch::Range range, std::int64_t micro) {
    return run(WindowRequest::even(index, range, micro));
  }

  void add_observer(std::shared_ptr<Observer> observer) { observers_.push_back(observer); }
  /// From now on signals stop a window.
  void heed(memory::BudgetWatch& budget, const StopSignalWatch& signals) {
    control_ = RunControl(budget, signals, log_, true);
  }
  /// The reasons of the events of this name.
  std::vector<std::string> told(const std::string& name) const {
    std::vector<std::string> reasons;
    for (const Event& event : recorder_->events)
      if (event.name == name) reasons.push_back(event.reason);
    return reasons;
  }

 private:
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  RunLog::Observers observers_{recorder_};
  TrainState state_;
  RunLog log_{observers_, state_, true};
  RunControl control_;
  SingleProcess alone_;
  accum::Window& window_;
  memory::Retries retries_;
  R runner_;
};

}  // namespace accrue::train::testing
