#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::distributed {

/// Learns how many contributions each slot gets in a micro-batch, and when in the backward the last
/// one comes; so in a later micro-batch it knows, contribution by contribution, when a slot is
/// final. Watches the buffer's slots while it exists; a buffer has one watch at a time.
class SlotWatch {
 public:
  /// `after_contribution` is called after each counted contribution, on the thread of the
  /// backward.
  SlotWatch(const accum::GradientBuffer& buffer, std::function<void()> after_contribution);
  ~SlotWatch();
  SlotWatch(const SlotWatch&) = delete;
  SlotWatch& operator=(const SlotWatch&) = delete;

  /// Starts to count contributions; learns from those since the last call.
  void begin_micro_batch();
  /// Learns from the window's last micro-batch; no contribution counts until the next begins.
  void end();
  /// Ends without learning, since other micro-batches ran again after the last one began.
  void forget();

  /// Whether the slot got as many contributions in this micro-batch as in those before. A slot that
  /// never had one is final only when the backward ends.
  bool is_final(std::size_t slot) const;
  /// Contributions of the slot in this window.
  std::int64_t contributions(std::size_t slot) const;
  /// When each slot became final, by slot: larger is later; slots without contributions come last.
  std::vector<std::int64_t> final_at() const;

 private:
  struct Seen {
    std::int64_t now = 0;       ///< in this micro-batch
    std::int64_t expected = 0;  ///< the most in a micro-batch so far
    std::int64_t place = 0;     ///< of the last one, among all of a micro-batch; 0: there was none
  };
  void count(Seen& seen);

  const accum::GradientBuffer& buffer_;
  std::function<void()> after_contribution_;
  std::vector<Seen> slots_;
  std::int64_t counted_ = 0;  ///< contributions in this micro-batch
  bool watching_ = false;
};

}  // namespace accrue::distributed
