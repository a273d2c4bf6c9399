#include "accrue/models/batch_norm.h"

#include <ATen/ATen.h>

#include "accrue/core/error.h"

namespace accrue::models {

at::Tensor normalise_by_micro_batch(const BatchNorm& layer, const at::Tensor& x) {
  if (layer.batches_tracked.defined()) {
    const at::NoGradGuard no_grad;
    at::Tensor(layer.batches_tracked).add_(1);
  }
  return at::batch_norm(x, layer.weight, layer.bias, layer.running_mean, layer.running_var,
                        /*training=*/true, layer.momentum, layer.eps, /*cudnn_enabled=*/false);
}

BatchNorm without_running_statistics(BatchNorm layer) {
  layer.running_mean = layer.running_var = layer.batches_tracked = at::Tensor();
  return layer;
}

at::Tensor normalise_by_running(const BatchNorm& layer, const at::Tensor& x) {
  if (!layer.running_mean.defined()) {
    throw usage_error("evaluate batch norm " + layer.name, "running statistics", "none",
                      "a layer that tracks them");
  }
  return at::batch_norm(x, layer.weight, layer.bias, layer.running_mean, layer.running_var,
                        /*training=*/false, layer.momentum, layer.eps, /*cudnn_enabled=*/false);
}

}  // namespace accrue::models
