#pragma once

#include <cstdint>
#include <string>

namespace accrue {

/// Threads that this process may keep busy: the affinity mask, or less where the cgroup's quota
/// grants less. At least 1.
std::int64_t granted_threads();

/// "AMD EPYC": the processor's name as the system has it; empty where it does not tell.
std::string processor_name();

}  // namespace accrue
