#include "core/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace accrue {
namespace {

std::int64_t affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Processors the cgroup's CPU quota is worth, rounded down but at least 1; `fallback` without a
/// quota.
std::int64_t quota_count(std::int64_t fallback) {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0)
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::stod(quota) / period));
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double micros = 0;
  if (v1_quota >> micros && v1_period >> period && micros > 0 && period > 0)
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(micros / period));
  return fallback;
}

}  // namespace

std::int64_t granted_threads() {
  const std::int64_t count = std::max<std::int64_t>(1, affinity_count());
  return std::min(count, quota_count(count));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

}  // namespace accrue
