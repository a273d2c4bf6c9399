#pragma once

#include "memory/estimate.h"

namespace accrue::train {

/// Bytes for each parameter that are read from the disk and written to it.
struct Traffic {
  double read = 0;
  double write = 0;
};

/// The traffic of a window whose state is offloaded, if nothing of it stays in memory between: the
/// rows of the table in docs/guide/larger_than_memory.md.
struct OffloadTraffic {
  Traffic forward;   ///< reads parameters and low-precision copies, writes the copies
  Traffic backward;  ///< reads parameters and copies, writes the sums
  Traffic closing;   ///< reads the sums twice: whether they are finite, and their norm
  Traffic step;      ///< reads all state but the copies, writes parameters and moments

  Traffic total() const {
    return {.read = forward.read + backward.read + closing.read + step.read,
            .write = forward.write + backward.write + closing.write + step.write};
  }
};

OffloadTraffic offload_traffic(const memory::Storage& storage);

}  // namespace accrue::train
