#include "slot_watch.h"

#include <algorithm>
#include <limits>

namespace accrue::dist {

SlotWatch::SlotWatch(const accum::GradientBuffer& buffer)
    : buffer_(buffer), slots_(buffer.entries().size()) {}

std::int64_t SlotWatch::contributions(std::size_t slot) const {
  return buffer_.entries()[slot].slot->contributions;
}

void SlotWatch::begin_micro_batch() {
  watching_ = true;
  stage_ = 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    slots_[slot].at_begin = slots_[slot].before = contributions(slot);
}

void SlotWatch::look() {
  if (!watching_) return;
  ++stage_;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    Seen& seen = slots_[slot];
    const std::int64_t now = contributions(slot);
    if (now == seen.before) continue;
    seen.before = now;
    seen.stage = std::max(seen.stage, stage_);
    seen.expected = std::max(seen.expected, now - seen.at_begin);
  }
}

void SlotWatch::forget() { watching_ = false; }

bool SlotWatch::is_final(std::size_t slot) const {
  const Seen& seen = slots_[slot];
  return watching_ && seen.expected > 0 && contributions(slot) - seen.at_begin >= seen.expected;
}

std::vector<std::int64_t> SlotWatch::final_at() const {
  std::vector<std::int64_t> stages;
  for (const Seen& seen : slots_)
    stages.push_back(seen.stage > 0 ? seen.stage : std::numeric_limits<std::int64_t>::max());
  return stages;
}

}  // namespace accrue::dist
