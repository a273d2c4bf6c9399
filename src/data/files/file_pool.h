#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace accrue::data {

/// The beginning of a file, which is followed by something else.
struct FileHead {
  std::filesystem::path path;
  std::int64_t bytes = 0;
};

/// Reads parts of many files with few of them open. Safe to call from several threads.
class FilePool {
 public:
  static constexpr std::size_t max_open_files = 64;

  /// Records each file's size and its last change. Throws a usage Error of the operation `what` if
  /// one cannot be read.
  FilePool(std::vector<std::filesystem::path> paths, const std::string& what);
  /// The same, but only of the heads of files.
  FilePool(const std::vector<FileHead>& heads, const std::string& what);
  ~FilePool();

  std::size_t count() const { return paths_.size(); }
  const std::filesystem::path& path(std::size_t file) const { return paths_[file]; }
  std::int64_t bytes(std::size_t file) const { return bytes_[file]; }

  /// Fills `out` with the bytes of `file` from `offset`. Throws a runtime Error if the file has
  /// changed since it was recorded, in place or by another one at its path, or can no longer be
  /// read. (The file at the path counts when it is opened: an open one keeps its content.)
  void read(std::size_t file, std::int64_t offset, std::span<std::byte> out) const;

 private:
  /// The system's data on a file's content.
  struct Version {
    std::int64_t bytes = 0, modified_ns = 0;
    bool operator==(const Version&) const = default;
  };
  class Opened;
  struct Slot {
    std::size_t file = 0;
    std::shared_ptr<const Opened> descriptor;
  };

  std::shared_ptr<const Opened> descriptor_of(std::size_t file) const;
  std::shared_ptr<const Opened> reopen(std::size_t file) const;
  void require_unchanged(std::size_t file, const Opened& descriptor) const;

  std::vector<std::filesystem::path> paths_;
  std::vector<Version> versions_;
  std::vector<std::int64_t> bytes_;  ///< the number that is read of each file
  mutable std::mutex mutex_;         ///< guards slots_; reading happens outside of it
  mutable std::array<Slot, max_open_files> slots_;
};

}  // namespace accrue::data
