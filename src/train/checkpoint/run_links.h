#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The folders of a run directory that are links to others (`checkpoints` on another disk), in
/// words for the user: the run writes to their targets. Throws a usage Error if one of its
/// files is a link, since the target may belong to another user, or if a link leads to
/// nothing.
std::vector<std::string> links_of_run(const RunDirectory& run);

/// The error for a `file` of a run directory that is `obstacle`, such as "a link".
Error foreign_entry_error(const std::filesystem::path& file, const std::string& obstacle);

}  // namespace accrue::train
