#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "accrue/data/format.h"
#include "core/lower_case.h"

namespace accrue::data {

/// The meanings of data files' suffixes, in upper or lower case.
///
/// ".png" of "a.PNG".
inline std::string suffix_of(const std::filesystem::path& path) {
  return lower_case(path.extension().string());
}

/// Whether the file's name marks it as an encoded image, in upper or lower case. Formats that are
/// refused by name count, as they must not pass as text.
inline bool has_image_suffix(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 11> suffixes{
      ".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".pnm", ".gif", ".tif", ".tiff", ".webp"};
  return std::find(suffixes.begin(), suffixes.end(), suffix_of(path)) != suffixes.end();
}

inline bool has_parquet_suffix(const std::filesystem::path& path) {
  return suffix_of(path) == ".parquet";
}

/// Whether the file's name marks it as JSON lines; also ".jsonl.1", which is a rotated file of
/// lines. (".jl" may be Julia: the first line of such a file decides.)
inline bool has_json_lines_suffix(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 5> suffixes{".jsonl", ".jsonlines", ".json-lines",
                                                     ".ndjson", ".ldjson"};
  const std::string suffix = suffix_of(path);
  const bool is_number =
      suffix.size() > 1 && suffix.find_first_not_of("0123456789", 1) == suffix.npos;
  return std::find(suffixes.begin(), suffixes.end(), is_number ? suffix_of(path.stem()) : suffix) !=
         suffixes.end();
}

/// A file's format by its name, for data.format = "auto"; text if the name does not show it
/// (sniff_files() looks further).
inline Format format_by_suffix(const std::filesystem::path& path) {
  if (suffix_of(path) == ".bin") return Format::tokens;
  if (has_json_lines_suffix(path)) return Format::jsonl;
  if (has_parquet_suffix(path)) return Format::parquet;
  return has_image_suffix(path) ? Format::images : Format::text;
}

}  // namespace accrue::data
