#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/data/format.h"

namespace accrue::data {

/// The contents of a file without a stated format: by its name, and if that is not enough by its
/// first bytes.
struct SniffedFile {
  Format format = Format::text;
  std::string is;      ///< its kind if it is not text and cannot be read; else empty
  std::string advice;  ///< what to do with it
};

/// The looks of files, in their order. Files that are not text are, by their names or their first
/// bytes, compressed, an archive, a table, an array, a document or JSON that is not lines, or have
/// a zero byte.
std::vector<SniffedFile> sniff_files(const std::vector<std::filesystem::path>& paths,
                                     const std::string& what);

/// Throws a usage Error of the operation `what` that names the first file that is not text.
void refuse_non_text(const std::vector<std::filesystem::path>& paths,
                     const std::vector<SniffedFile>& looks, const std::string& what);

}  // namespace accrue::data
