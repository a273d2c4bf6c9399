#pragma once

#include <cstdint>
#include <filesystem>

namespace accrue::memory {

/// available_bytes() of a system with /proc and /sys under `root`.
std::int64_t available_bytes_under(const std::filesystem::path& root);

}  // namespace accrue::memory
