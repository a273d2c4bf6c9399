#include "train/pass/forward_backward.h"

#include <cmath>
#include <string>

#include "accrue/core/error.h"
#include "train/pass/chain_run.h"
#include "train/pass/head_losses.h"

namespace accrue::train {

PassResult forward_backward(models::Trainable& model, const batch::MicroBatch& micro,
                            const ForwardContext& context, const PassOptions& options) {
  if (micro.is_empty()) {
    const std::vector<double> none(model.losses().size(), 0);
    return {.heads = {.sums = none, .weights = none}};
  }
  ChainRun chain(model.segments(), micro, context, options.recompute);
  const models::Activations output = as_leaves(chain.forward());
  const HeadLosses::Total total = HeadLosses(model, options).total(output, micro, context);
  const PassResult result{.loss_sum = total.sum * options.weighting,
                          .weight = total.weight * options.weighting,
                          .finite = std::isfinite(total.sum),
                          .heads = total.heads,
                          .unread = total.unread};
  if (!result.finite) return result;
  if (!total.roots.empty()) torch::autograd::backward(total.roots, total.gradients);
  chain.backward(gradients_of(output));
  return result;
}

void check_recompute(models::Trainable& model, models::BatchNormPolicy policy,
                     Recompute recompute) {
  if (recompute == Recompute::none) return;
  const std::string wanted = "memory.recompute=" + std::string(to_string(recompute));
  if (policy == models::BatchNormPolicy::exact && !models::find_batch_norms(model).none())
    throw usage_error(wanted, "another model.batchnorm",
                      "exact, which runs the window segment by segment and makes again what it "
                      "needs for backward",
                      "memory.recompute=none");
  const std::vector<models::Segment> segments = model.segments();
  if (segments.size() < 2)
    throw usage_error(wanted, "a model in several segments",
                      "one that cannot be cut: '" + segments.at(0).name + "' runs as a whole",
                      "memory.recompute=none, or accrue::checkpoint inside the module");
}

}  // namespace accrue::train
