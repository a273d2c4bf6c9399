#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace accrue {

/// Writes `content` so that `path` holds either its old content or all of the new one, whatever
/// happens: a temporary beside it, fsync, rename, fsync of the folder.
/// Throws a runtime Error naming the path and the system's reason (disk full, no permission).
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The whole file. Throws a usage Error where it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Flushes a file or a folder's entries to the disk. Throws a runtime Error.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace accrue
