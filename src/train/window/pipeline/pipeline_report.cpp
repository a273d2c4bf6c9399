#include "train/window/pipeline/pipeline_report.h"

#include <algorithm>
#include <cmath>

#include "distributed/schedule/pipeline_schedule.h"

namespace accrue::train {

std::string PipelineReport::in_words(std::int64_t micro_batches) const {
  const double waits = 100 * distributed::bubble_fraction(stages_, micro_batches);
  return std::to_string(stages_) + " stages: " + division_ + "; balanced ones wait " +
         std::to_string(std::lround(waits)) + "% of the time with " +
         std::to_string(micro_batches) + " micro-batches, less with more";
}

void PipelineReport::tell(const WindowRun& window, double working, StepReport& report) const {
  if (window.micro_batches == 0 || window.seconds <= 0) return;
  const double all = static_cast<double>(stages_) * window.seconds;
  report.pipeline_bubble = std::max(0.0, 1 - working / all);
  report.pipeline_bubble_formula = distributed::bubble_fraction(stages_, window.micro_batches);
}

}  // namespace accrue::train
