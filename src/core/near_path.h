#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace accrue {

/// The path in the same folder that a `path` which does not exist was most likely meant to be; none
/// if no name there is near. Looks at a limited number of names.
std::optional<std::filesystem::path> near_path(const std::filesystem::path& path);

/// near_path(), or `otherwise`, as the suggestion of an error for a path that does not exist.
std::string near_path_or(const std::filesystem::path& path, const std::string& otherwise);

}  // namespace accrue
