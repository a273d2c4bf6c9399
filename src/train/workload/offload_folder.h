#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "accrue/train/config.h"

namespace accrue::train {

/// The folder of memory.offload, for memory::OffloadScope; empty if the config names none
/// (also with "auto", which only training decides).
/// Throws a usage Error if it is not an existing folder.
std::filesystem::path offload_folder(const Config& config);

/// The bytes of memory.offload_budget; nothing if there is no limit.
std::optional<std::int64_t> offload_budget(const Config& config);

}  // namespace accrue::train
