#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace accrue {

/// The folder of a control group, and which version's names its files have.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;
};

/// The groups whose limits bind this process in what `controller` ("cpu", "memory", "pids") hands
/// out: its own, and those that this one lies in, up to the root of what is mounted. Of a system
/// whose /proc and /sys lie under `root`. A folder need not exist, and need not have any file.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace accrue
