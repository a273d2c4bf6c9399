#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace accrue {

/// Threads that this process may keep busy: the affinity mask, or less if the CPU quotas of its
/// control groups grant less. At least 1.
std::int64_t granted_threads();

/// How many of `most` processors the tightest CPU quota of the process's control groups is worth,
/// rounded down but at least 1; `most` without a quota. Of a system whose /proc and /sys lie under
/// `root`.
std::int64_t threads_of_quota(std::int64_t most, const std::filesystem::path& root = "/");

/// "AMD EPYC": the processor's name as the system has it; empty if it does not tell.
std::string processor_name();

}  // namespace accrue
