#include "train/pass/buffer_snapshot.h"

#include <ATen/core/grad_mode.h>

namespace accrue::train {

BufferSnapshot::BufferSnapshot(const models::Trainable& model) {
  for (const NamedParameter& buffer : model.buffers())
    if (buffer.tensor.defined()) kept_.push_back({buffer.tensor, buffer.tensor.detach().clone()});
}

BufferSnapshot::BufferSnapshot(const std::vector<at::Tensor>& buffers) {
  for (const at::Tensor& buffer : buffers)
    if (buffer.defined()) kept_.push_back({buffer, buffer.detach().clone()});
}

void BufferSnapshot::keep() {
  const at::NoGradGuard no_grad;
  for (Kept& kept : kept_) kept.value.copy_(kept.buffer);
}

void BufferSnapshot::restore() const {
  const at::NoGradGuard no_grad;
  for (const Kept& kept : kept_) at::Tensor(kept.buffer).copy_(kept.value);
}

}  // namespace accrue::train
