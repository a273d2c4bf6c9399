#pragma once

#include <cstdint>
#include <string>

#include "accrue/core/step_report.h"
#include "train/window/runner.h"

namespace accrue::train {

/// What a run tells of its pipeline.
class PipelineReport {
 public:
  /// `division` of the model among the stages, in words.
  PipelineReport(std::int64_t stages, std::string division)
      : stages_(stages), division_(std::move(division)) {}

  std::string in_words(std::int64_t micro_batches) const;
  /// Fills in `window`, whose seconds are those of the first stage, from the first forward to the
  /// last backward; `working` are those that all stages worked, added up.
  void tell(const WindowRun& window, double working, StepReport& report) const;

 private:
  std::int64_t stages_;
  std::string division_;
};

}  // namespace accrue::train
