#include "train/run/sinks.h"

#include "observe/jsonl_sink.h"
#include "observe/progress_sink.h"

namespace accrue::train {

std::vector<std::shared_ptr<Observer>> make_sinks(const ObserveConfig& config,
                                                  const RunDirectory& directory,
                                                  std::int64_t first_step) {
  std::vector<std::shared_ptr<Observer>> sinks;
  if (config.jsonl)
    sinks.push_back(std::make_shared<observe::JsonlSink>(directory.metrics_file(), first_step));
  sinks.push_back(std::make_shared<observe::ProgressSink>(config.progress));
  return sinks;
}

}  // namespace accrue::train
