#include "train/window/layered/segment_state.h"

#include "accrue/memory/offload.h"

namespace accrue::train {

SegmentState::SegmentState(const accum::GradientBuffer& buffer, std::size_t segments)
    : buffer_(buffer), needed_(segments) {}

void SegmentState::attach_to(LayeredOptions& options) {
  if (!memory::is_offloading()) return;
  options.before_segment = [this](const SegmentVisit& visit) { before(visit); };
  options.on_parameters = [this](std::size_t segment, const std::vector<at::Tensor>& parameters) {
    note(segment, parameters);
  };
}

void SegmentState::note(std::size_t segment, const std::vector<at::Tensor>& parameters) {
  Needed& needed = needed_.at(segment);
  needed.forward = needed.backward = parameters;
  for (const at::Tensor& parameter : parameters)
    for (const accum::GradientBuffer::Entry& entry : buffer_.entries())
      if (entry.parameter.is_same(parameter)) needed.backward.push_back(entry.slot->main);
}

void SegmentState::before(const SegmentVisit& visit) const {
  const auto needed = [this](std::size_t segment, bool backward) -> const std::vector<at::Tensor>& {
    return backward ? needed_.at(segment).backward : needed_.at(segment).forward;
  };
  memory::keep_in_memory(
      needed(visit.segment, visit.backward),
      visit.next ? needed(*visit.next, visit.next_backward) : std::vector<at::Tensor>{});
}

}  // namespace accrue::train
