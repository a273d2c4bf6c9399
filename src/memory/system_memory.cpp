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

namespace accrue::memory {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The names that one version of the cgroup interface gives to the same figures.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* used;
  const char* reclaimable;  ///< in memory.stat: file pages that the kernel drops before it refuses
};
constexpr CgroupFiles kVersion2{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kVersion1{"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                "memory.usage_in_bytes", "total_inactive_file"};

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

std::int64_t left_in(const fs::path& folder, const CgroupFiles& files) {
  const auto limit = number_in(folder / files.limit), used = number_in(folder / files.used);
  if (!limit || !used) return kUnlimited;
  const std::int64_t reclaimable = entry_in(folder / "memory.stat", files.reclaimable).value_or(0);
  return std::max<std::int64_t>(*limit - *used + reclaimable, 0);
}

/// What the limits leave: a group is bound by its ancestors' limits too. Inside a container its own
/// path may not exist under the mount, whose root then is the group: walking up to the root covers
/// both.
std::int64_t left_along(const fs::path& root, const CgroupFiles& files, const fs::path& group) {
  std::int64_t left = left_in(root / files.mount, files);
  for (fs::path path = group.relative_path(); !path.empty(); path = path.parent_path())
    left = std::min(left, left_in(root / files.mount / path, files));
  return left;
}

/// What the group of one line of /proc/self/cgroup has left: "id:controllers:path"; version 2 has
/// no controllers.
std::int64_t left_in_group(const fs::path& root, const std::string& line) {
  std::istringstream fields(line);
  std::string id, controllers, group;
  std::getline(fields, id, ':');
  std::getline(fields, controllers, ':');
  std::getline(fields, group);
  if (controllers.empty()) return left_along(root, kVersion2, group);
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "memory") return left_along(root, kVersion1, group);
  return kUnlimited;
}

std::int64_t left_in_cgroups(const fs::path& root) {
  std::int64_t left = kUnlimited;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    left = std::min(left, left_in_group(root, line));
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
  return std::min(kibibytes ? *kibibytes * kKibibyte : kUnlimited, left_in_cgroups(root));
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

std::int64_t peak_resident_bytes() {
#ifdef __APPLE__
  return usage_of_process().ru_maxrss;
#else
  constexpr std::int64_t kKibibyte = 1024;
  // Where counters are kept by processor (Linux 6.2 and later), getrusage adds them up only
  // roughly.
  const auto exact = entry_in("/proc/self/status", "VmHWM:");
  return exact.value_or(usage_of_process().ru_maxrss) * kKibibyte;
#endif
}

std::int64_t minor_page_faults() { return usage_of_process().ru_minflt; }

}  // namespace accrue::memory
