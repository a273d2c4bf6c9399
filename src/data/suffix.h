#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>

namespace accrue::data {

/// ".png" of "a.PNG".
inline std::string suffix_of(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

/// Whether the file's name says that it is an encoded image, in whichever case; also of formats
/// that are refused by name, which must not pass as text.
inline bool has_image_suffix(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 11> suffixes{
      ".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".pnm", ".gif", ".tif", ".tiff", ".webp"};
  return std::find(suffixes.begin(), suffixes.end(), suffix_of(path)) != suffixes.end();
}

}  // namespace accrue::data
