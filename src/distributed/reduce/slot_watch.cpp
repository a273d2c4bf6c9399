#include "distributed/reduce/slot_watch.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace accrue::distributed {

SlotWatch::SlotWatch(const accum::GradientBuffer& buffer, std::function<void()> after_contribution)
    : buffer_(buffer),
      after_contribution_(std::move(after_contribution)),
      slots_(buffer.entries().size()) {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    buffer_.entries()[slot].slot->after_contribution = [this, slot] { count(slots_[slot]); };
}

SlotWatch::~SlotWatch() {
  for (const accum::GradientBuffer::Entry& entry : buffer_.entries())
    entry.slot->after_contribution = nullptr;
}

void SlotWatch::count(Seen& seen) {
  if (!watching_) return;
  ++seen.now;
  seen.place = std::max(seen.place, ++counted_);
  after_contribution_();
}

std::int64_t SlotWatch::contributions(std::size_t slot) const {
  return buffer_.entries()[slot].slot->contributions;
}

void SlotWatch::begin_micro_batch() {
  end();
  watching_ = true;
}

void SlotWatch::end() {
  for (Seen& seen : slots_) seen.expected = std::max(seen.expected, seen.now);
  forget();
}

void SlotWatch::forget() {
  for (Seen& seen : slots_) seen.now = 0;
  counted_ = 0;
  watching_ = false;
}

bool SlotWatch::is_final(std::size_t slot) const {
  const Seen& seen = slots_[slot];
  return watching_ && seen.expected > 0 && seen.now >= seen.expected;
}

std::vector<std::int64_t> SlotWatch::final_at() const {
  std::vector<std::int64_t> places;
  for (const Seen& seen : slots_)
    places.push_back(seen.place > 0 ? seen.place : std::numeric_limits<std::int64_t>::max());
  return places;
}

}  // namespace accrue::distributed
