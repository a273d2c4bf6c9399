#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace accrue {

/// The commit of the git working copy that contains `folder`, according to git: its hexadecimal
/// digits, followed by "-dirty" if a tracked file was modified. Nothing if there is no working
/// copy, no commit or no git, or if git takes more than 10 seconds. Nothing is written, and no
/// monitor that the working copy configures (core.fsmonitor) is started.
std::optional<std::string> commit_of(const std::filesystem::path& folder);

}  // namespace accrue
