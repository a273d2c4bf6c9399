#include "core/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "core/control_groups.h"

namespace accrue {
namespace {

std::int64_t affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// Version 2 has the quota ("max": none) and the period in one file, version 1 in two.
double processors_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.version == 2) {
    std::ifstream(group.folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota;  // -1: none
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

}  // namespace

std::int64_t granted_threads() {
  return threads_of_quota(std::max<std::int64_t>(1, affinity_count()));
}

std::int64_t threads_of_quota(std::int64_t most, const std::filesystem::path& root) {
  auto processors = static_cast<double>(most);
  for (const ControlGroup& group : control_groups("cpu", root))
    processors = std::min(processors, processors_of(group));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(processors));
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
