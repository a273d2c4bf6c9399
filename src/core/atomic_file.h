#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/open_file.h"

namespace accrue {

/// Writes `content` so that `path` holds either its old content or all of the new one, whatever
/// happens: a temporary beside it, fsync, rename, fsync of the folder.
/// Nothing else is touched: the temporary's name was free, and nothing is written through a link.
/// Throws a runtime Error naming the path and the system's reason (disk full, no permission), and a
/// usage Error if there is a link, a folder, a device or a pipe.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Writes content that is too large to be held at once: bytes go to a temporary beside `path`,
/// which takes its place in `commit`. Without a commit the temporary is removed and `path` is
/// untouched. The temporary has no name until then, if the file system can do that: a killed
/// process leaves nothing, unless it is killed between the two system calls that replace a file
/// (is_temporary_of). If the system refuses to give it a name in the end, it is copied into a
/// temporary that has one.
class AtomicFile {
 public:
  /// Throws a runtime Error naming the path if it cannot be created, and a usage Error if
  /// there is something that is no regular file.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws a runtime Error if the disk is full; the temporary then goes with this object.
  void write(std::string_view bytes);
  /// Flushes to the disk, renames and flushes the folder. Nothing may be written afterwards.
  void commit();
  /// Commits, unless there is a file already: that one stays, and what was written goes with this
  /// object.
  void commit_unless_there();

 private:
  void sync() const;
  bool give_free_name();
  void name_beside();
  void copy_to_named();

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
};

/// Whether a temporary of the file `path` may have had the name `name`.
bool is_temporary_of(const std::filesystem::path& name, const std::filesystem::path& path);

/// The whole file. Throws a usage Error if it cannot be read, or is none (a pipe, a folder).
std::string read_file(const std::filesystem::path& path, ReadOrder order = ReadOrder::any);

/// Flushes a file or a folder's entries to the disk. Throws a runtime Error.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace accrue
