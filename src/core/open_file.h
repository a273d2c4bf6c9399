#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "core/descriptor.h"

namespace accrue {

/// An opened file, or the reason why it was not opened.
struct OpenedFile {
  Descriptor file;
  int error = 0;         ///< the system's (errno); 0 if there is a file, or one of another kind
  std::string obstacle;  ///< in words: the system's reason, or "a pipe"; empty if there is a file

  explicit operator bool() const { return static_cast<bool>(file); }
};

enum class ReadOrder {
  any,       ///< only a regular file
  in_order,  ///< also a pipe without a name, which a shell makes for <(a command)
};

/// Opens a file for reading, following links. Its kind is checked first, so that it never waits for
/// a pipe without a writer, and touches no device.
OpenedFile open_to_read(const std::filesystem::path& path, ReadOrder order = ReadOrder::any);

/// The same as a stream, which is not open if open_to_read() has an obstacle.
std::ifstream stream_to_read(const std::filesystem::path& path);

/// Creates a new file. An existing name, also of a link, is an error (EEXIST). `flags` are those of
/// open(2) in addition to O_CREAT: O_WRONLY, O_APPEND.
OpenedFile create_file(const std::filesystem::path& path, int flags);

/// Opens a file that is changed in place, and creates it if there is none. Never through a link,
/// and never a file with a second name (a hard link): the data would be written to another user's
/// file. `flags` as in create_file().
OpenedFile open_to_change(const std::filesystem::path& path, int flags);

/// Whether the regular file at `path` has a second name.
bool has_second_name(const std::filesystem::path& path);

}  // namespace accrue
