#include "accrue/models/class_loss.h"

#include <ATen/ATen.h>

#include "accrue/core/error.h"
#include "models/layers/losses/loss_terms.h"

namespace accrue::models {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor.scalar_type(), ' ', tensor.sizes()) : "no tensor";
}

/// Whether each pixel of an image has a class: [B, H, W] for images [B, C, H, W]. Targets of other
/// data may have three dimensions as well.
bool is_by_pixel(const batch::MicroBatch& micro) {
  const bool images = micro.inputs.defined() && micro.inputs.dim() == 4 &&
                      at::isFloatingType(micro.inputs.scalar_type());
  return images && micro.targets.defined() && micro.targets.dim() == 3;
}

/// Logits [B, K, ...] as [B, ..., K].
at::Tensor classes_last(const at::Tensor& logits) {
  return logits.defined() && logits.dim() >= 2 ? logits.movedim(1, -1) : logits;
}

bool fits(const at::Tensor& logits, const at::Tensor& targets) {
  return logits.defined() && logits.dim() >= 2 && targets.defined() &&
         targets.scalar_type() == at::kLong &&
         targets.sizes() == logits.sizes().slice(0, logits.dim() - 1);
}

Loss checked_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                           const kernels::CrossEntropyOptions& options) {
  if (!fits(logits, targets))
    throw usage_error(
        "cross-entropy", "logits [..., K] and int64 targets [...] of the same leading sizes",
        shape_of(logits) + " and " + shape_of(targets), "a model whose output goes with the data");
  return kernels::cross_entropy(logits, targets, options);
}

Loss checked_pixel_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                 const kernels::CrossEntropyOptions& options) {
  const at::Tensor by_pixel = classes_last(logits);
  if (!fits(by_pixel, targets))
    throw usage_error("cross-entropy of pixels",
                      "logits [B, K, H, W] and int64 targets [B, H, W] of the same sizes",
                      shape_of(logits) + " and " + shape_of(targets),
                      "a model whose output has the height and width of its input");
  return kernels::cross_entropy(by_pixel, targets, options);
}

}  // namespace

Loss class_cross_entropy(const at::Tensor& logits, const batch::MicroBatch& micro) {
  return checked_cross_entropy(logits, micro.targets, {.row_weights = micro.weights});
}

Loss pixel_cross_entropy(const at::Tensor& logits, const batch::MicroBatch& micro) {
  return checked_pixel_cross_entropy(logits, micro.targets, {.row_weights = micro.weights});
}

LossHead class_cross_entropy_head(const LossOptions& options) {
  return {.name = "cross_entropy",
          .forward =
              [options](const Activations& logits, const batch::MicroBatch& micro,
                        const ForwardContext& context, double) {
                const auto loss =
                    is_by_pixel(micro) ? checked_pixel_cross_entropy : checked_cross_entropy;
                return loss(logits.at(0), micro.targets, loss_terms(options, micro, context));
              },
          .weight =
              [](const batch::MicroBatch& micro) {
                return kernels::label_weight(micro.targets, micro.weights);
              },
          .correct =
              [](const Activations& logits, const batch::MicroBatch& micro) {
                const std::int64_t classes = is_by_pixel(micro) ? 1 : -1;  // their dimension
                at::Tensor right =
                    logits.at(0).argmax(classes).cpu().eq(micro.targets).to(at::kDouble);
                if (micro.weights.defined()) right.mul_(micro.weights);
                return right.sum().item<double>();
              }};
}

}  // namespace accrue::models
