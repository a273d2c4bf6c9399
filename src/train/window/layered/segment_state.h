#pragma once

#include <cstddef>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {

/// Brings the offloaded state that a segment needs into memory before its micro-batches run, and
/// that of the following segment while they run: its parameters, and for its backward pass their
/// sums. Which parameters a segment uses is learned from its first backward pass; until then its
/// state is read when it is touched. Without an OffloadScope nothing happens.
class SegmentState {
 public:
  /// The buffer is kept by reference.
  SegmentState(const accum::GradientBuffer& buffer, std::size_t segments);

  /// States the parameters that a segment uses.
  void note(std::size_t segment, std::vector<at::Tensor> parameters);
  void before(const SegmentVisit& visit) const;

 private:
  std::vector<at::Tensor> needed(std::size_t segment, bool backward) const;

  const accum::GradientBuffer& buffer_;
  std::vector<std::vector<at::Tensor>> parameters_;  ///< by segment
};

}  // namespace accrue::train
