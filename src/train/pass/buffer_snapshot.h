#pragma once

#include "accrue/models/trainable.h"
#include "support/snapshot.h"

namespace accrue::train {

/// A model's buffers (running statistics), saved so that a quarantined micro-batch and an
/// unfinished window do not change them.
class BufferSnapshot : public TensorSnapshot {
 public:
  explicit BufferSnapshot(const models::Trainable& model) : TensorSnapshot(model.buffers()) {}
};

}  // namespace accrue::train
