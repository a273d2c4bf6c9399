#pragma once

#include <cstddef>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {

/// Brings the offloaded state that a segment needs into memory before its micro-batches run, and
/// that of the following segment while they run: its weights, and for its backward pass the sums of
/// those that are trained. The model lists its weights (models::Segment::weights), frozen ones and
/// copies included. Trained parameters are also learned from a segment's first backward pass, and
/// with them their sums. State in neither list is read when it is touched.
class SegmentState {
 public:
  /// The buffer is kept by reference. The segments' model must outlive this object.
  SegmentState(const accum::GradientBuffer& buffer, std::vector<models::Segment> segments);

  /// Makes windows with these options call this object, which has to outlive them. Without an
  /// OffloadScope nothing happens.
  void attach_to(LayeredOptions& options);

  /// The state that a pass through a segment needs, as far as it is known.
  std::vector<at::Tensor> needed(std::size_t segment, bool backward) const;

 private:
  struct Learned {
    std::vector<at::Tensor> forward, backward;
  };
  void note(std::size_t segment, const std::vector<at::Tensor>& parameters);
  void before(const SegmentVisit& visit) const;

  const accum::GradientBuffer& buffer_;
  std::vector<models::Segment> segments_;
  std::vector<Learned> learned_;  ///< by segment
};

}  // namespace accrue::train
