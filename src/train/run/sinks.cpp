#include "train/run/sinks.h"

#include "observe/jsonl_sink.h"
#include "observe/progress_sink.h"
#include "observe/tensorboard/tensorboard_sink.h"
#include "train/run/claimed_observer.h"
#include "train/run/tensorboard_run.h"

namespace accrue::train {

ObserveConfig observed(const Config& config, bool is_quiet) {
  ObserveConfig observed = config.observe;
  if (is_quiet) observed.progress = observe::ProgressStyle::off;
  return observed;
}

std::vector<std::shared_ptr<Observer>> make_sinks(const SinkContext& run) {
  const ObserveConfig& observe = run.observed;
  std::vector<std::shared_ptr<Observer>> sinks;
  if (observe.jsonl)
    sinks.push_back(std::make_shared<ClaimedObserver>(
        run.claim, std::make_unique<observe::JsonlSink>(run.directory.metrics_file(),
                                                        run.first_step, run.metrics)));
  if (observe.tensorboard)
    sinks.push_back(std::make_shared<ClaimedObserver>(
        run.claim, std::make_unique<observe::TensorboardSink>(tensorboard_run(run))));
  sinks.push_back(std::make_shared<observe::ProgressSink>(observe.progress));
  return sinks;
}

}  // namespace accrue::train
