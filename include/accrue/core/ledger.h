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

/// Names one micro-batch of a window. With parameters and seed it determines the contribution, so
/// it is enough to replay it.
struct MicroRef {
  std::int64_t index = 0;                ///< position in the window
  std::vector<std::int64_t> sample_ids;  ///< draw ordinals; may be empty in a user's own loop
  double weight = 0;                     ///< terms in the loss; known at the latest at commit
};

/// For messages: "micro-batch 3 (samples 12 to 15)".
std::string describe(const MicroRef& micro);

struct LedgerEntry {
  MicroRef micro;
  MicroStatus status = MicroStatus::pending;
  double loss_sum = 0;  ///< of a committed micro-batch, 0 of others
  std::string reason;   ///< why a micro-batch was quarantined or lost
};

/// A window's record, in order of micro-batch. A view: valid until the window changes.
struct LedgerView {
  std::int64_t window = 0;
  std::span<const LedgerEntry> entries;

  double committed_weight() const;
  double committed_loss_sum() const;
  std::int64_t count(MicroStatus status) const;
};

}  // namespace accrue
