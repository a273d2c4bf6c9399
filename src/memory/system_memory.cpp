#include "memory/system_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "accrue/memory/caching_allocator.h"
#include "core/control_groups.h"

namespace accrue::memory {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The names of the same values in one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* reclaimable;  ///< in memory.stat: file pages that the kernel drops before it refuses
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

/// The number in a file; nothing for "max" (no limit), an empty or a missing file.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::int64_t value = 0;
  std::ifstream stream(file);
  return stream >> value ? std::optional(value) : std::nullopt;
}

/// The number that follows `key` in a file of "key value" or "key: value" lines.
std::optional<std::int64_t> entry_in(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream fields(line);
    std::string name;
    std::int64_t value = 0;
    if (fields >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

std::int64_t left_in(const ControlGroup& group) {
  const GroupFiles& files = group.version == 1 ? kVersion1 : kVersion2;
  const auto limit = number_in(group.folder / files.limit);
  const auto used = number_in(group.folder / files.used);
  if (!limit || !used) return kUnlimited;
  const std::int64_t reclaimable =
      entry_in(group.folder / "memory.stat", files.reclaimable).value_or(0);
  return std::max<std::int64_t>(*limit - *used + reclaimable, 0);
}

std::int64_t left_in_groups(const fs::path& root) {
  std::int64_t left = kUnlimited;
  for (const ControlGroup& group : control_groups("memory", root))
    left = std::min(left, left_in(group));
  return left;
}

rusage usage_of_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

}  // namespace

std::int64_t available_bytes_under(const fs::path& root) {
  constexpr std::int64_t kKibibyte = 1024;
  const auto kibibytes = entry_in(root / "proc/meminfo", "MemAvailable:");
  return std::min(kibibytes ? *kibibytes * kKibibyte : kUnlimited, left_in_groups(root));
}

std::int64_t available_bytes() {
  if (const auto room = device_room()) {
    const Usage held = usage();
    return room->free + held.reserved - held.live;
  }
  return available_bytes_under("/");
}

std::int64_t resident_bytes() {
  std::ifstream pages("/proc/self/statm");
  std::int64_t mapped = 0, resident = 0;
  return pages >> mapped >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::int64_t mapped_file_bytes() {
  std::ifstream pages("/proc/self/statm");
  std::int64_t mapped = 0, resident = 0, shared = 0;
  return pages >> mapped >> resident >> shared ? shared * sysconf(_SC_PAGESIZE) : 0;
}

std::int64_t peak_resident_bytes() {
#ifdef __APPLE__
  return usage_of_process().ru_maxrss;
#else
  constexpr std::int64_t kKibibyte = 1024;
  // If counters are kept per processor (Linux 6.2 and later), getrusage only adds them up
  // approximately.
  const auto exact = entry_in("/proc/self/status", "VmHWM:");
  return exact.value_or(usage_of_process().ru_maxrss) * kKibibyte;
#endif
}

std::int64_t minor_page_faults() { return usage_of_process().ru_minflt; }

}  // namespace accrue::memory
