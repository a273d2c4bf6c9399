#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace accrue {

/// The folder of a control group, and the version that determines the names of its files.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;
};

/// The groups whose limits apply to this process for `controller` ("cpu", "memory", "pids"): its
/// group and all ancestors up to the root of the mount. /proc and /sys are read under `root`. A
/// folder need not exist, and need not have any file.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace accrue
