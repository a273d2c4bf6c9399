#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

struct ShownEvents {
  std::vector<EventPoint> events;  ///< in their order; long reasons are cut, with a note
  std::int64_t left_out = 0;       ///< how many more there were
};

/// At most `most` events: if there are more, the rare ones stay, and of the frequent ones the first
/// and the last.
ShownEvents choose_events(const std::vector<EventPoint>& events, std::size_t most);

}  // namespace accrue::observe
