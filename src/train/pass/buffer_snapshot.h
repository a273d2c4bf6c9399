#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/models/trainable.h"

namespace accrue::train {

/// A model's buffers (running statistics) as of a moment, to go back to where what moved them since
/// does not count: a micro-batch that was left out, a window that was not finished.
class BufferSnapshot {
 public:
  /// Keeps them as they are now.
  explicit BufferSnapshot(const models::Trainable& model);
  explicit BufferSnapshot(const std::vector<at::Tensor>& buffers);

  void keep();
  void restore() const;

 private:
  struct Kept {
    at::Tensor buffer, value;
  };
  std::vector<Kept> kept_;
};

}  // namespace accrue::train
