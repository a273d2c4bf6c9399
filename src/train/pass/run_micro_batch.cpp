#include "train/pass/run_micro_batch.h"

namespace accrue::train {

MicroBatchRun run_micro_batch(accum::Window& window, models::Trainable& model, const MicroRef& ref,
                              const batch::MicroBatch& micro, const ForwardContext& context,
                              const PassOptions& options, const WindowLosses* losses) {
  window.begin(ref);
  MicroBatchRun run{.pass = forward_backward(model, micro, context, options)};
  if (losses != nullptr) losses->check(ref, run.pass.heads.weights);
  if (run.pass.finite) {
    run.status = window.commit(run.pass.loss_sum, run.pass.weight);
  } else {
    run.status = MicroStatus::quarantined;
    window.abort(run.status, "its loss is not finite");
  }
  return run;
}

}  // namespace accrue::train
