#pragma once

#include <filesystem>

#include "accrue/train/config.h"

namespace accrue::train {

/// The folder of memory.offload, for memory::OffloadScope; empty if the config names none
/// (also with "auto", which only training decides).
/// Throws a usage Error if it is not an existing folder.
std::filesystem::path offload_folder(const Config& config);

}  // namespace accrue::train
