#pragma once

#include <cstddef>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {

/// Brings the offloaded state that a segment needs into memory before its micro-batches run, and
/// that of the following segment while they run: its parameters, and for its backward pass their
/// sums. Which parameters a segment uses is learned from its first backward pass; until then its
/// state is read when it is touched.
class SegmentState {
 public:
  /// The buffer is kept by reference.
  SegmentState(const accum::GradientBuffer& buffer, std::size_t segments);

  /// Makes windows with these options call this object, which has to outlive them. Without an
  /// OffloadScope nothing happens.
  void attach_to(LayeredOptions& options);

 private:
  struct Needed {
    std::vector<at::Tensor> forward, backward;
  };
  void note(std::size_t segment, const std::vector<at::Tensor>& parameters);
  void before(const SegmentVisit& visit) const;

  const accum::GradientBuffer& buffer_;
  std::vector<Needed> needed_;  ///< by segment
};

}  // namespace accrue::train
