#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/data/format.h"

namespace accrue::data {

/// What a file holds that nobody stated: by its name, and if that does not say it by its first
/// bytes.
struct FileLook {
  Format format = Format::text;
  std::string is;  ///< what it is that is no text, though nothing reads it; empty: it can be read
  std::string advice;  ///< what to do with it
};

/// The looks of files, in their order. Those that are no text are, by their names or their first
/// bytes, compressed, an archive, a table, an array, a document or JSON that is no lines, or have a
/// zero byte.
std::vector<FileLook> look_at_files(const std::vector<std::filesystem::path>& paths,
                                    const std::string& what);

/// Throws a usage Error, its operation being `what`, that names the first file that is no text.
void refuse_what_is_no_text(const std::vector<std::filesystem::path>& paths,
                            const std::vector<FileLook>& looks, const std::string& what);

}  // namespace accrue::data
