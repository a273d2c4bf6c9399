#include "train/window/layered/segment_state.h"

#include <utility>

#include "accrue/memory/offload.h"

namespace accrue::train {

SegmentState::SegmentState(const accum::GradientBuffer& buffer, std::size_t segments)
    : buffer_(buffer), parameters_(segments) {}

void SegmentState::note(std::size_t segment, std::vector<at::Tensor> parameters) {
  parameters_.at(segment) = std::move(parameters);
}

std::vector<at::Tensor> SegmentState::needed(std::size_t segment, bool backward) const {
  std::vector<at::Tensor> needed = parameters_.at(segment);
  if (!backward) return needed;
  const std::size_t parameters = needed.size();
  for (std::size_t i = 0; i < parameters; ++i)
    for (const accum::GradientBuffer::Entry& entry : buffer_.entries())
      if (entry.parameter.is_same(needed[i])) needed.push_back(entry.slot->main);
  return needed;
}

void SegmentState::before(const SegmentVisit& visit) const {
  if (!memory::is_offloading()) return;
  const std::vector<at::Tensor> now = needed(visit.segment, visit.backward);
  const std::vector<at::Tensor> next =
      visit.next ? needed(*visit.next, visit.next_backward) : std::vector<at::Tensor>{};
  memory::keep_in_memory(now, next);
}

}  // namespace accrue::train
