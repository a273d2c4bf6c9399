#pragma once

#include <cstdint>
#include <filesystem>

namespace accrue::memory {

/// available_bytes() of a system with /proc and /sys under `root`.
std::int64_t available_bytes_under(const std::filesystem::path& root);

/// The part of resident_bytes() that lies in mapped files, shared libraries included.
std::int64_t mapped_file_bytes();

}  // namespace accrue::memory
