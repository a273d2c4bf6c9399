#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/file_pool.h"

namespace accrue::data {

struct Line {
  std::int64_t number = 0;  ///< from 1
  std::int64_t begin = 0;   ///< offset of its first byte in the file
  std::string_view text;    ///< without the line feed; valid until the next one is read
};

/// Reads a text file line by line through a buffer.
class LineReader {
 public:
  /// A longer line means that the file is not text.
  static constexpr std::int64_t longest_bytes = std::int64_t{64} << 20;

  LineReader(const FilePool& files, std::size_t file, const std::string& what);
  /// The next line that is not blank, or none at the end of the file. Throws a usage Error of the
  /// operation `what` if one is longer than `longest_bytes`.
  std::optional<Line> next();

 private:
  bool read_more();  ///< false: the file has ended
  std::string_view take_line();

  const FilePool& files_;
  std::size_t file_;
  const std::string& what_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< the untaken part of the buffer
  std::int64_t offset_ = 0;          ///< of buffer_[begin_] in the file
  std::int64_t number_ = 0;
};

/// The number, from 1, of the line that contains the byte at `offset`.
std::int64_t line_number_at(const FilePool& files, std::size_t file, std::int64_t offset);

}  // namespace accrue::data
