#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "core/descriptor.h"

namespace accrue {

/// A file that was opened, or why it was not.
struct OpenedFile {
  Descriptor file;
  int error = 0;         ///< the system's (errno); 0 if there is a file, or one of another kind
  std::string obstacle;  ///< in words: the system's reason, or "a pipe"; empty if there is a file

  explicit operator bool() const { return static_cast<bool>(file); }
};

enum class ReadOrder {
  any,       ///< a regular file alone
  in_order,  ///< also a pipe without a name, which a shell makes of <(a command)
};

/// Opens a file to read it, behind links. What it is is looked at first, so that nobody waits for a
/// pipe that nobody writes to, and no device is touched.
OpenedFile open_to_read(const std::filesystem::path& path, ReadOrder order = ReadOrder::any);

/// The same as a stream, which is not open where open_to_read() has an obstacle.
std::ifstream stream_to_read(const std::filesystem::path& path);

/// Makes a new file. A name that is taken, by a link too, is an error (EEXIST). `flags` are those
/// of open(2) beside O_CREAT: O_WRONLY, O_APPEND.
OpenedFile create_file(const std::filesystem::path& path, int flags);

/// Opens a file that is changed in place, and makes it if there is none. Never through a link,
/// and never a file that has a second name (a hard link): what is written would be in somebody
/// else's file. `flags` as of create_file().
OpenedFile open_to_change(const std::filesystem::path& path, int flags);

/// Whether the regular file at `path` has a second name.
bool has_second_name(const std::filesystem::path& path);

}  // namespace accrue
