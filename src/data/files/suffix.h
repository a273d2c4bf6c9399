#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>

#include "accrue/data/format.h"

namespace accrue::data {

/// What the suffixes of data files say, in whichever case they are written.
///
/// ".png" of "a.PNG".
inline std::string suffix_of(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

/// Whether the file's name says that it is an encoded image, in whichever case. Formats that are
/// refused by name count, as they must not pass as text.
inline bool has_image_suffix(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 11> suffixes{
      ".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".pnm", ".gif", ".tif", ".tiff", ".webp"};
  return std::find(suffixes.begin(), suffixes.end(), suffix_of(path)) != suffixes.end();
}

inline bool has_parquet_suffix(const std::filesystem::path& path) {
  return suffix_of(path) == ".parquet";
}

inline bool has_json_lines_suffix(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  return suffix == ".jsonl" || suffix == ".json-lines";
}

/// What a file holds by its name, where data.format = "auto" asks it.
inline Format format_by_suffix(const std::filesystem::path& path) {
  if (suffix_of(path) == ".bin") return Format::tokens;
  if (has_json_lines_suffix(path)) return Format::jsonl;
  if (has_parquet_suffix(path)) return Format::parquet;
  return has_image_suffix(path) ? Format::images : Format::text;
}

}  // namespace accrue::data
