#include "accrue/models/class_loss.h"

#include <ATen/ATen.h>

#include "accrue/core/error.h"
#include "models/layers/loss_terms.h"

namespace accrue::models {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor.scalar_type(), ' ', tensor.sizes()) : "no tensor";
}

Loss checked_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                           const kernels::CrossEntropyOptions& options) {
  const bool fits = logits.defined() && logits.dim() >= 2 && targets.defined() &&
                    targets.scalar_type() == at::kLong &&
                    targets.sizes() == logits.sizes().slice(0, logits.dim() - 1);
  if (!fits)
    throw usage_error(
        "cross-entropy", "logits [..., K] and int64 targets [...] of the same leading sizes",
        shape_of(logits) + " and " + shape_of(targets), "a model whose output goes with the data");
  return kernels::cross_entropy(logits, targets, options);
}

}  // namespace

Loss class_cross_entropy(const at::Tensor& logits, const batch::MicroBatch& micro) {
  return checked_cross_entropy(logits, micro.targets, {.row_weights = micro.weights});
}

LossHead class_cross_entropy_head(const LossOptions& options) {
  return {.name = "cross_entropy",
          .forward =
              [options](const Activations& logits, const batch::MicroBatch& micro,
                        const ForwardContext& context, double) {
                return checked_cross_entropy(logits.at(0), micro.targets,
                                             loss_terms(options, micro, context));
              },
          .weight =
              [](const batch::MicroBatch& micro) {
                return kernels::label_weight(micro.targets, micro.weights);
              },
          .correct =
              [](const Activations& logits, const batch::MicroBatch& micro) {
                at::Tensor right = logits.at(0).argmax(-1).eq(micro.targets).to(at::kDouble);
                if (micro.weights.defined()) right.mul_(micro.weights);
                return right.sum().item<double>();
              }};
}

}  // namespace accrue::models
