#pragma once

#include <cstdint>

namespace accrue {

/// The number of threads, up to `most`, that the system would start for this process in addition to
/// the existing ones. Any limit counts (a user's limit on processes, a control group's pids.max,
/// memory for stacks): they are started and ended, some 20 microseconds each. Another program may
/// take the rest in the next moment.
std::int64_t startable_threads(std::int64_t most);

}  // namespace accrue
