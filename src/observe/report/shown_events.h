#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

struct ShownEvents {
  std::vector<EventPoint> events;  ///< in their order; long reasons are cut, which they say
  std::int64_t left_out = 0;       ///< how many more there were
};

/// At most `most` events: if there are more, the rare ones stay, and of those that come
/// often the first and the last.
ShownEvents choose_events(const std::vector<EventPoint>& events, std::size_t most);

}  // namespace accrue::observe
