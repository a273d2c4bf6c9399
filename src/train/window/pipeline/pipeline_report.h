#pragma once

#include <cstdint>
#include <string>

#include "accrue/core/step_report.h"
#include "train/window/runner.h"

namespace accrue::train {

/// The report of a run on its pipeline.
class PipelineReport {
 public:
  /// `division` of the model among the stages, in words.
  PipelineReport(std::int64_t stages, std::string division)
      : stages_(stages), division_(std::move(division)) {}

  std::string in_words(std::int64_t micro_batches) const;
  /// Completes `report` for `window`, whose seconds are those of the first stage, from the first
  /// forward to the last backward; `working` are the working seconds of all stages, added up.
  void tell(const WindowRun& window, double working, StepReport& report) const;

 private:
  std::int64_t stages_;
  std::string division_;
};

}  // namespace accrue::train
