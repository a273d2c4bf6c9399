#pragma once

#include <cstdint>
#include <string>

#include "data/files/file_pool.h"

namespace accrue::data {

/// The position of a file's tokens: `tokens` little-endian ids of `width` bytes from `offset`.
struct TokenLayout {
  std::int64_t offset = 0;
  std::int64_t tokens = 0;
  std::int64_t width = 1;  ///< 1, 2 or 4
  bool operator==(const TokenLayout&) const = default;
};

/// The layout of a text file: a token per byte.
TokenLayout text_layout(const FilePool& files, std::size_t file);

/// The layout of a token file, by its magic number. Throws a usage Error of the operation `what`
/// that names the file if it is empty, truncated or corrupt, or of an unknown version.
TokenLayout token_layout(const FilePool& files, std::size_t file, const std::string& what);

/// llm.c's header for `tokens` ids of `width` (2 or 4) bytes, which follow it.
std::string token_header(std::int64_t tokens, std::int64_t width);

}  // namespace accrue::data
