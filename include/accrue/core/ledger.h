#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/enum_words.h"

namespace accrue {

enum class MicroStatus { pending, committed, quarantined, lost };
inline constexpr auto micro_status_words =
    enum_words<MicroStatus>({{MicroStatus::pending, "pending"},
                             {MicroStatus::committed, "committed"},
                             {MicroStatus::quarantined, "quarantined"},
                             {MicroStatus::lost, "lost"}});
constexpr std::string_view to_string(MicroStatus status) { return micro_status_words.of(status); }

/// Identifies one micro-batch of a window. Together with the parameters and the seed it determines
/// the contribution, so it is enough for a replay.
struct MicroRef {
  std::int64_t index = 0;                ///< position in the window
  std::vector<std::int64_t> sample_ids;  ///< draw ordinals; may be empty in a user's loop
  double weight = 0;                     ///< number of terms in the loss; known by commit
};

/// Text for messages: "micro-batch 3 (samples 12 to 15)".
std::string describe(const MicroRef& micro);

struct LedgerEntry {
  MicroRef micro;
  MicroStatus status = MicroStatus::pending;
  double loss_sum = 0;  ///< 0 unless the micro-batch is committed
  std::string reason;   ///< why a micro-batch was quarantined or lost
};

/// The record of a window: its micro-batches in order. A view, valid until the window changes.
struct LedgerView {
  std::int64_t window = 0;
  std::span<const LedgerEntry> entries;

  double committed_weight() const;
  double committed_loss_sum() const;
  std::int64_t count(MicroStatus status) const;
};

}  // namespace accrue
