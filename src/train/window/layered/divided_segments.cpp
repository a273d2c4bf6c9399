#include "train/window/layered/divided_segments.h"

#include <algorithm>

#include "accum/finite_sums.h"

namespace accrue::train {

void DividedSegments::attach_to(LayeredOptions& options) {
  if (shards_ == nullptr) return;
  options.before_segment = [this](const SegmentVisit& visit) {
    shards_->enter(visit.segment, visit.backward, visit.next);
  };
  options.sums_are_finite = [this](std::size_t segment) { return sums_are_finite(segment); };
  if (reduce_ == nullptr) return;
  options.take_sums = [this](std::size_t segment) {
    reduce_->reduce_now(shards_->final_after(segment));
  };
}

/// Small parameters are whole on each rank, whatever segment they belong to.
bool DividedSegments::sums_are_finite(std::size_t segment) const {
  const std::vector<bool>& divided = shards_->divided();
  for (std::size_t entry = 0; entry < divided.size(); ++entry)
    if (!divided[entry] && !accum::sum_is_finite(buffer_.entries()[entry])) return false;
  return std::ranges::all_of(shards_->entries_of(segment), [this](std::size_t entry) {
    return accum::sum_is_finite(buffer_.entries()[entry]);
  });
}

void DividedSegments::leave() {
  if (shards_ != nullptr) shards_->keep_own();
}

}  // namespace accrue::train
