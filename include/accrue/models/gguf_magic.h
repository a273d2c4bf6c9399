#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace accrue::models {

/// The first bytes of a GGUF file.
inline constexpr std::string_view gguf_magic = "GGUF";

/// Whether `path` is a file that begins with GGUF's magic.
inline bool is_gguf(const std::filesystem::path& path) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) return false;
  std::string beginning(gguf_magic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(beginning.data(), std::ssize(beginning));
  return beginning == gguf_magic;
}

}  // namespace accrue::models
