#pragma once

#include <cstdint>

namespace accrue {

/// How many of `most` threads the system starts for this process beside those that it has. Whatever
/// sets the limit counts (a user's limit on processes, a control group's pids.max, memory for
/// stacks): they are started and ended, some 20 microseconds each. Another program may take what is
/// left in the next moment.
std::int64_t startable_threads(std::int64_t most);

}  // namespace accrue
