#pragma once

#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// Closes the open slots of these parameters during its lifetime: kernels return their gradients to
/// autograd. A forward pass that could write gradients before its backward
/// (kernels::linear_cross_entropy) needs it if its loss is scaled later or not differentiated at
/// all.
class BypassGradSlots {
 public:
  explicit BypassGradSlots(const GradientBuffer& buffer) {
    for (const GradientBuffer::Entry& entry : buffer.entries()) close(entry.parameter);
  }
  ~BypassGradSlots() {
    for (kernels::GradSlot* slot : closed_) slot->open = true;
  }
  BypassGradSlots(const BypassGradSlots&) = delete;
  BypassGradSlots& operator=(const BypassGradSlots&) = delete;

 private:
  void close(const at::Tensor& parameter) {
    kernels::GradSlot* slot = kernels::open_slot_of(parameter);
    if (slot == nullptr) return;
    slot->open = false;
    closed_.push_back(slot);
  }

  std::vector<kernels::GradSlot*> closed_;
};

}  // namespace accrue::accum
