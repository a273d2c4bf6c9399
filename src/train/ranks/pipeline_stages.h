#pragma once

#include "train/ranks/summed_windows.h"
#include "train/window/pipeline/pipeline_report.h"

namespace accrue::train {

/// Ranks that are the stages of a pipeline: each runs all micro-batches of a window through its
/// part of the model.
class PipelineStages final : public SummedWindows {
 public:
  explicit PipelineStages(const ParallelismContext& context);

  batch::Range share(batch::Range window) override;
  std::optional<PipelineStage> stage() const override { return stage_; }
  bool retries_locally() const override { return false; }
  void close(accum::Window& window, WindowRun& run) override;
  void report(const WindowRun& run, StepReport& report) const override;
  std::vector<RankRecord> records() const override { return records_; }
  std::string remark(std::int64_t micro_batches) const override;

 private:
  std::vector<double> figures(const WindowRun& run) const override { return {run.own_seconds}; }

  PipelineStage stage_;
  PipelineReport report_;
  std::vector<RankRecord> records_;
};

}  // namespace accrue::train
