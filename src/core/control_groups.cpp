#include "core/control_groups.h"

#include <fstream>
#include <sstream>
#include <string>

namespace accrue {
namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of groups.
struct Mount {
  int version = 2;
  std::string controllers;  ///< of version 1, between commas
  fs::path group;           ///< the group that is at the place; "/" unless it is bound from within
  fs::path place;
};

bool is_named(std::string_view controller, const std::string& names) {
  std::istringstream words(names);
  for (std::string name; std::getline(words, name, ',');)
    if (name == controller) return true;
  return false;
}

/// Parses a line of /proc/self/mountinfo: "id parent device group place options [...] - kind source
/// options". For a kind other than cgroup and cgroup2 the place is empty.
Mount mount_of(const std::string& line) {
  std::istringstream before(line);
  std::string skipped, group, place;
  before >> skipped >> skipped >> skipped >> group >> place;
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return {};
  std::istringstream after(line.substr(dash + 3));
  std::string kind, source, options;
  after >> kind >> source >> options;
  if (kind == "cgroup2") return {2, "", group, place};
  if (kind == "cgroup") return {1, options, group, place};
  return {};
}

/// The mounts; if they cannot be read, the customary ones.
std::vector<Mount> mounts_for(std::string_view controller, const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);)
    if (Mount mount = mount_of(line); !mount.place.empty()) mounts.push_back(std::move(mount));
  if (!mounts.empty()) return mounts;
  const std::string name(controller);
  return {{2, "", "/", "/sys/fs/cgroup"}, {1, name, "/", "/sys/fs/cgroup/" + name}};
}

/// The group's path below the mount's place. A path that is not below the group mounted there comes
/// from another namespace: then only the place itself is known to be an ancestor.
fs::path below(const Mount& mount, const fs::path& group) {
  const fs::path relative = group.lexically_normal().lexically_relative(mount.group);
  const bool is_below = !relative.empty() && *relative.begin() != "..";
  return is_below && relative != "." ? relative : fs::path();
}

void add_ancestry(const fs::path& root, const Mount& mount, const fs::path& group,
                  std::vector<ControlGroup>& groups) {
  const fs::path place = root / mount.place.relative_path();
  for (fs::path path = below(mount, group); !path.empty(); path = path.parent_path())
    groups.push_back({place / path, mount.version});
  groups.push_back({place, mount.version});
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  const std::vector<Mount> mounts = mounts_for(controller, root);
  std::vector<ControlGroup> groups;
  // Each line is "id:controllers:group"; version 2 names no controllers.
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, controllers, group;
    std::getline(fields, id, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, group);
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !is_named(controller, controllers)) continue;
    for (const Mount& mount : mounts)
      if (mount.version == version && (version == 2 || is_named(controller, mount.controllers)))
        add_ancestry(root, mount, group, groups);
  }
  return groups;
}

}  // namespace accrue
