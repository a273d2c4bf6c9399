#pragma once

#include "accrue/models/trainable.h"
#include "support/snapshot.h"

namespace accrue::train {

/// A model's buffers (running statistics): a quarantined micro-batch and a window that was
/// not finished do not move them.
class BufferSnapshot : public TensorSnapshot {
 public:
  explicit BufferSnapshot(const models::Trainable& model) : TensorSnapshot(model.buffers()) {}
};

}  // namespace accrue::train
