#pragma once

#include <filesystem>

namespace accrue::memory {

/// Bytes a second.
struct DiskRates {
  double read = 0;
  double write = 0;
};

/// Measures how fast the disk of `folder` writes and reads a file without a name, past the page
/// cache: at most 256 MiB, and about a second each way. Throws a usage Error if no file can be made
/// in the folder, and a runtime Error if the disk refuses a read or a write.
DiskRates measure_disk_rates(const std::filesystem::path& folder);

}  // namespace accrue::memory
