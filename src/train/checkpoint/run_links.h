#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// Folders of a run directory that are links to others (`checkpoints` on another disk), in words
/// for the user: what a run writes there is written to these. Throws a usage Error if one of its
/// files is a link, since what is behind it may be somebody else's, or where a link leads to
/// nothing.
std::vector<std::string> links_of_run(const RunDirectory& run);

/// What is reported where `file` of a run directory is `obstacle`, such as "a link".
Error not_its_own(const std::filesystem::path& file, const std::string& obstacle);

}  // namespace accrue::train
