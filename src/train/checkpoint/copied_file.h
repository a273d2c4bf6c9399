#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>

namespace accrue::train {

/// Copies the rest of `from`, at most `most` bytes of it, so that `to` holds either its old content
/// or all of the new one (AtomicFile). `from` may have been unlinked meanwhile. Throws a runtime
/// Error if it cannot be read to its end, and what AtomicFile throws.
void copy_atomically(std::ifstream& from, const std::filesystem::path& to,
                     std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// Copies a file by name in the same way. Throws a runtime Error if it cannot be opened.
void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace accrue::train
