#include "train/ranks/pipeline_stages.h"

namespace accrue::train {

PipelineStages::PipelineStages(const ParallelismContext& context)
    : SummedWindows(context),
      stage_(context.ranks.make_stage(context.model,
                                      context.loader.fetch_full({0, context.micro_batch}))),
      report_(stage_.count(), stage_.division),
      records_(context.state.ranks) {}

batch::Range PipelineStages::share(batch::Range window) {
  begin_window();
  return window;
}

/// Every stage's ledger has what is quarantined, so it is counted once.
void PipelineStages::close(accum::Window& window, WindowRun& run) {
  SummedWindows::close(window, run);
  run.quarantined /= stage_.count();
}

void PipelineStages::report(const WindowRun& run, StepReport& report) const {
  SummedWindows::report(run, report);
  double working = 0;
  for (const accum::RankStatement& stage : totals().of_ranks) working += stage.figures.front();
  report_.tell(run, working, report);
}

std::string PipelineStages::remark(std::int64_t micro_batches) const {
  return report_.in_words(micro_batches);
}

}  // namespace accrue::train
