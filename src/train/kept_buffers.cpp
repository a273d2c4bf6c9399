#include "kept_buffers.h"

#include <ATen/core/grad_mode.h>

namespace accrue::train {

KeptBuffers::KeptBuffers(const models::Trainable& model) {
  for (const NamedParameter& buffer : model.buffers())
    if (buffer.tensor.defined()) kept_.push_back({buffer.tensor, buffer.tensor.detach().clone()});
}

KeptBuffers::KeptBuffers(const std::vector<at::Tensor>& buffers) {
  for (const at::Tensor& buffer : buffers)
    if (buffer.defined()) kept_.push_back({buffer, buffer.detach().clone()});
}

void KeptBuffers::keep() {
  const at::NoGradGuard no_grad;
  for (Kept& kept : kept_) kept.value.copy_(kept.buffer);
}

void KeptBuffers::restore() const {
  const at::NoGradGuard no_grad;
  for (const Kept& kept : kept_) at::Tensor(kept.buffer).copy_(kept.value);
}

}  // namespace accrue::train
