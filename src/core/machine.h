#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace accrue {

/// Threads that this process may use: the affinity mask, or less if the CPU quotas of its control
/// groups allow less. At least 1.
std::int64_t granted_threads();

/// The number of processors, out of `most`, that the tightest CPU quota of the process's control
/// groups allows, rounded down but at least 1; `most` without a quota. /proc and /sys are read
/// under `root`.
std::int64_t threads_of_quota(std::int64_t most, const std::filesystem::path& root = "/");

/// The processor's name according to the system, such as "AMD EPYC"; empty if unknown.
std::string processor_name();

}  // namespace accrue
