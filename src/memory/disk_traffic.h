#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace accrue::memory {

/// Bytes that this process has had read from disks so far, by calls and by page faults, read-ahead
/// included. File systems in user space (FUSE) are not counted.
std::int64_t bytes_read_by_process();
/// The part of it that the calling thread has had read.
std::int64_t bytes_read_by_thread();

/// Bytes of the file's pages from `begin` to `end` that are changed in memory and not on their way
/// to the disk. Changes through a mapping count once they are unmapped. Nothing if the kernel does
/// not count them (before Linux 6.5).
std::optional<std::int64_t> changed_bytes(int file, std::size_t begin, std::size_t end);

}  // namespace accrue::memory
