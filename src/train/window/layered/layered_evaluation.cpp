#include "train/window/layered/layered_evaluation.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "accrue/memory/offload_passes.h"

namespace accrue::train {
namespace {

using Cut = std::vector<ActivationStore::Kept>;

Cut kept_in(ActivationStore& store, const models::Activations& activations) {
  Cut cut;
  for (const at::Tensor& tensor : activations)
    cut.push_back(tensor.defined() ? store.keep(tensor) : ActivationStore::Kept());
  return cut;
}

models::Activations taken(Cut& cut) {
  models::Activations activations;
  for (const ActivationStore::Kept& kept : std::exchange(cut, {}))
    activations.push_back(kept.tensor());
  return activations;
}

}  // namespace

std::optional<std::vector<models::Evaluated>> evaluate_by_segments(
    models::Trainable& model, std::span<const batch::MicroBatch> micro_batches,
    ActivationStore& store, const LayeredEvaluation& options) {
  const at::NoGradGuard no_grad;
  const std::vector<models::Segment> chain = model.segments();
  const std::vector<models::LossHead> heads = model.losses();
  std::vector<Cut> cuts(micro_batches.size());
  std::vector<models::Evaluated> results;
  bool is_cancelled = false;
  const auto weights_of = [&](std::size_t segment) {
    return chain[segment].weights ? chain[segment].weights() : std::vector<at::Tensor>();
  };
  const auto run = [&](std::size_t segment) {
    if (options.before_segment) options.before_segment(segment);
    for (std::size_t i = 0; i < micro_batches.size(); ++i) {
      is_cancelled = is_cancelled || (options.cancelled && options.cancelled());
      if (is_cancelled) return;
      const batch::MicroBatch& micro = micro_batches[i];
      const ForwardContext context = batch::evaluation_context(micro);
      models::Activations output;
      if (!micro.is_empty())
        output = models::run_segment(chain[segment], taken(cuts[i]), micro, context);
      if (segment + 1 == chain.size())
        results.push_back(models::evaluate_output(heads, output, micro, context));
      else
        cuts[i] = kept_in(store, output);
    }
  };
  memory::for_parts(chain.size(), weights_of, run);
  if (is_cancelled) return std::nullopt;
  return results;
}

}  // namespace accrue::train
