#pragma once

#include <cstdint>
#include <limits>

namespace accrue::batch {

/// The most that a window may hold; it takes samples in draw order while neither is exceeded.
struct WindowBudget {
  std::int64_t tokens = std::numeric_limits<std::int64_t>::max();  ///< input tokens without padding
  std::int64_t samples = std::numeric_limits<std::int64_t>::max();
  bool operator==(const WindowBudget&) const = default;
};

}  // namespace accrue::batch
