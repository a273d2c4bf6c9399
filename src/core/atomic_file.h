#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/open_file.h"

namespace accrue {

/// Writes `content` so that `path` holds either its old content or all of the new one at any time:
/// a temporary in the same folder, fsync, rename, fsync of the folder. Nothing else is changed: the
/// temporary's name was free, and nothing is written through a link. Throws a runtime Error naming
/// the path and the system's reason (disk full, no permission), and a usage Error if there is a
/// link, a folder, a device or a pipe.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Writes content that is too large for memory: bytes go to a temporary next to `path`, which
/// replaces it in `commit`. Without a commit the temporary is removed and `path` is unchanged. The
/// temporary has no name until then, if the file system supports that: a killed process leaves
/// nothing, unless it is killed between the two system calls that replace a file
/// (is_temporary_of). If the system refuses to name it at the end, it is copied into a temporary
/// that has a name.
class AtomicFile {
 public:
  /// Throws a runtime Error naming the path if it cannot be created, and a usage Error if there is
  /// something other than a regular file.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws a runtime Error if the disk is full; the temporary is removed with this object.
  void write(std::string_view bytes);
  /// Flushes to the disk, renames and flushes the folder. No write() may follow.
  void commit();
  /// Commits, unless there already is a file: that one stays, and the new content is removed with
  /// this object.
  void commit_unless_there();

 private:
  void sync() const;
  bool give_free_name();
  void name_temporary();
  void copy_to_named();

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
};

/// Whether a temporary of the file `path` may have had the name `name`.
bool is_temporary_of(const std::filesystem::path& name, const std::filesystem::path& path);

/// Reads the whole file. Throws a usage Error if it cannot be read, or is a pipe or a folder.
std::string read_file(const std::filesystem::path& path, ReadOrder order = ReadOrder::any);

/// Flushes a file or the entries of a folder to the disk. Throws a runtime Error.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace accrue
