#include "train/window/layered/segment_state.h"

#include <utility>

#include "accrue/memory/offload.h"

namespace accrue::train {

SegmentState::SegmentState(const accum::GradientBuffer& buffer,
                           std::vector<models::Segment> segments)
    : buffer_(buffer), segments_(std::move(segments)), learned_(segments_.size()) {}

void SegmentState::attach_to(LayeredOptions& options) {
  if (!memory::is_offloading()) return;
  options.before_segment = [this](const SegmentVisit& visit) { before(visit); };
  options.on_parameters = [this](std::size_t segment, const std::vector<at::Tensor>& parameters) {
    note(segment, parameters);
  };
}

void SegmentState::note(std::size_t segment, const std::vector<at::Tensor>& parameters) {
  Learned& learned = learned_.at(segment);
  learned.forward = learned.backward = parameters;
  for (const at::Tensor& parameter : parameters)
    for (const accum::GradientBuffer::Entry& entry : buffer_.entries())
      if (entry.parameter.is_same(parameter)) learned.backward.push_back(entry.slot->main);
}

std::vector<at::Tensor> SegmentState::needed(std::size_t segment, bool backward) const {
  const Learned& learned = learned_.at(segment);
  std::vector<at::Tensor> tensors = backward ? learned.backward : learned.forward;
  if (const auto& weights = segments_.at(segment).weights) {
    const std::vector<at::Tensor> listed = weights();
    tensors.insert(tensors.end(), listed.begin(), listed.end());
  }
  return tensors;
}

void SegmentState::before(const SegmentVisit& visit) const {
  memory::keep_in_memory(
      needed(visit.segment, visit.backward),
      visit.next ? needed(*visit.next, visit.next_backward) : std::vector<at::Tensor>{});
}

}  // namespace accrue::train
