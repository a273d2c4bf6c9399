#include "accrue/models/class_loss.h"

#include <ATen/ATen.h>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"

namespace accrue::models {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor.scalar_type(), ' ', tensor.sizes()) : "no tensor";
}

}  // namespace

Loss class_cross_entropy(const at::Tensor& logits, const batch::MicroBatch& micro) {
  const bool fits = logits.defined() && logits.dim() >= 2 && micro.targets.defined() &&
                    micro.targets.scalar_type() == at::kLong &&
                    micro.targets.sizes() == logits.sizes().slice(0, logits.dim() - 1);
  if (!fits)
    throw usage_error("cross-entropy",
                      "logits [..., K] and int64 targets [...] of the same leading sizes",
                      shape_of(logits) + " and " + shape_of(micro.targets),
                      "a model whose output goes with the data");
  return kernels::cross_entropy(logits, micro.targets, micro.weights);
}

LossHead class_cross_entropy_head() {
  return {.name = "cross_entropy",
          .forward = [](const Activations& logits, const batch::MicroBatch& micro,
                        const ForwardContext&) { return class_cross_entropy(logits.at(0), micro); },
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
