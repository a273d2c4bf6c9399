#include "train/pass/run_micro_batch.h"

#include "train/pass/recorded_pass.h"

namespace accrue::train {
namespace {

PassResult run_pass(models::Trainable& model, const batch::MicroBatch& micro,
                    const ForwardContext& context, const PassOptions& options) {
  if (options.recorded != nullptr) return options.recorded->run(micro, context, options);
  return forward_backward(model, micro, context, options);
}

}  // namespace

MicroBatchRun run_micro_batch(accum::Window& window, models::Trainable& model, const MicroRef& ref,
                              const batch::MicroBatch& micro, const ForwardContext& context,
                              const PassOptions& options, const WindowLosses* losses) {
  window.begin(ref);
  MicroBatchRun run{.pass = run_pass(model, micro, context, options)};
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
