#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace accrue {

/// The commit of the git working copy that `folder` lies in, as git tells it: its hexadecimal
/// digits, with "-dirty" behind them if a file that git knows was modified. Nothing if there
/// is no working copy, no commit or no git, and where git takes more than 10 seconds. Nothing is
/// written, and no monitor that the working copy configures (core.fsmonitor) is started.
std::optional<std::string> commit_of(const std::filesystem::path& folder);

}  // namespace accrue
