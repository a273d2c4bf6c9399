#pragma once

#include <cstdint>
#include <filesystem>

namespace accrue::memory {

/// Bytes a second.
struct DiskRates {
  double read = 0;
  double write = 0;
};

/// The most that measure_disk_rates() writes.
inline constexpr std::int64_t kMostMeasuredBytes = std::int64_t{256} << 20;

/// Measures how fast the disk of `folder` writes and reads a file without a name, past the page
/// cache: at most `most_bytes` (rounded to 4 MiB, at least that) and kMostMeasuredBytes, and about
/// a second each way. Throws a usage Error if no file can be made in the folder, and a runtime
/// Error if the disk refuses a read or a write.
DiskRates measure_disk_rates(const std::filesystem::path& folder,
                             std::int64_t most_bytes = kMostMeasuredBytes);

}  // namespace accrue::memory
