#pragma once

#include <cstdint>
#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::dist {

/// Learns from micro-batches how often each slot is contributed to in one, and at which stage of
/// the backward the last time is; so it can tell in a later one when a slot is final.
class SlotWatch {
 public:
  explicit SlotWatch(const accum::GradientBuffer& buffer);

  void begin_micro_batch();
  /// Between two stages of the backward.
  void look();
  /// What was seen since begin_micro_batch() does not count: other micro-batches ran again.
  void forget();

  /// Whether the slot had as many contributions in this micro-batch as in those before. What was
  /// never seen to have one is final only when the backward ends.
  bool is_final(std::size_t slot) const;
  /// Contributions of the slot in this window.
  std::int64_t contributions(std::size_t slot) const;
  /// By slot; what was never seen comes last.
  std::vector<std::int64_t> final_at() const;

 private:
  struct Seen {
    std::int64_t at_begin = 0, before = 0;  ///< in the window: now and when last looked at
    std::int64_t expected = 0;              ///< in a micro-batch, at most
    std::int64_t stage = 0;                 ///< of the last contribution; 0: none was seen
  };

  const accum::GradientBuffer& buffer_;
  std::vector<Seen> slots_;
  std::int64_t stage_ = 0;
  bool watching_ = false;
};

}  // namespace accrue::dist
