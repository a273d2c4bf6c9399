#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "core/descriptor.h"
#include "memory/page_ranges.h"

namespace accrue::memory {

using FileRange = PageRange;

/// A file without a name that is mapped as a whole, and the blocks in it. The kernel reads a page
/// when it is touched; the calls about ranges decide earlier and for many pages at once. All calls
/// are thread-safe.
class StateFile {
 public:
  /// The file takes at most `budget` bytes. Throws a usage Error if no file can be made in the
  /// folder or if it lies in memory (tmpfs).
  explicit StateFile(const std::filesystem::path& folder,
                     std::optional<std::int64_t> budget = std::nullopt);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  /// A block of zeros, page-aligned. The disk has its space from here on, so that no later write
  /// can lack it. Throws a runtime Error if there is none left, and a refused Error if the file
  /// would exceed its budget.
  void* take(std::size_t bytes);
  /// Returns false if the block is not from this file.
  bool give_back(void* data);
  bool holds(const void* data) const {
    const auto* const byte = static_cast<const std::byte*>(data);
    return byte >= base_ && byte < base_ + reserved_;
  }
  /// The pages that `bytes` from `data` touch.
  FileRange range_of(const void* data, std::size_t bytes) const;
  /// The end of the last block that there ever was.
  std::size_t end() const;
  std::int64_t bytes_in_blocks() const;
  const std::string& folder() const { return folder_; }
  const std::byte* addresses() const { return base_; }
  std::size_t addressed_bytes() const { return reserved_; }
  /// The error if the disk refuses a read or a write of what is in use.
  Error refused_by_disk(const std::string& reason) const;

  /// Whether the kernel counts what is read from the file and written to it. If it does not count
  /// writes, the calls below return 0.
  bool counts_reads() const { return counts_reads_; }
  bool counts_writes() const { return counts_writes_; }
  /// Reads the range into memory. Returns false, with errno, if the disk refuses.
  bool read(const FileRange& range) const;
  /// Unmaps the range and starts to write what was changed in it; does not wait. Pages that are
  /// mapped would have to be protected one by one while they are written, each with an interrupt to
  /// all processors. Returns the bytes that are being written, or nothing, with errno, if the disk
  /// refuses.
  std::optional<std::int64_t> begin_writing(const FileRange& range) const;
  /// Writes what was changed in the range, waits, and takes the range out of memory. Its values
  /// stay, also if it is written to meanwhile. Returns the bytes that were written by this call, or
  /// nothing, with errno, if a write failed.
  std::optional<std::int64_t> take_out_of_memory(const FileRange& range) const;
  /// Makes the whole pages within `bytes` from `data` zeros without writing them, and writes zeros
  /// to the rest.
  void make_zero(void* data, std::size_t bytes);

 private:
  struct Block {
    std::size_t capacity;  ///< whole pages
    std::size_t bytes;     ///< as requested
  };
  void zero_pages(const FileRange& range) const;
  std::optional<std::size_t> reuse(std::size_t capacity);
  std::size_t append(std::size_t capacity);
  void expect_within_budget(std::size_t end) const;
  std::int64_t changed_in(const FileRange& range) const;

  const ::pid_t owner_ = ::getpid();
  std::string folder_;
  std::optional<std::int64_t> budget_;
  std::size_t reserved_;  ///< bytes of addresses
  Descriptor file_;
  bool counts_reads_, counts_writes_;
  std::byte* base_ = nullptr;
  mutable std::mutex mutex_;
  std::size_t end_ = 0;
  std::map<std::size_t, std::size_t> free_;  ///< capacity by offset; neighbours are joined
  std::map<std::size_t, Block> in_use_;      ///< by offset
  std::int64_t bytes_in_blocks_ = 0;
};

}  // namespace accrue::memory
