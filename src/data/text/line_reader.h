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
  std::int64_t begin = 0;   ///< if its first byte is in the file
  std::string_view text;    ///< without the line feed; valid until the next one is read
};

/// Reads a text file line by line through a buffer.
class LineReader {
 public:
  /// A line that is longer is no line of text: the file is something else.
  static constexpr std::int64_t longest_bytes = std::int64_t{64} << 20;

  LineReader(const FilePool& files, std::size_t file, const std::string& what);
  /// The next line that is not blank, or nothing at the end of the file. Throws a usage Error, its
  /// operation being `what`, where one is longer than `longest_bytes`.
  std::optional<Line> next();

 private:
  bool read_more();  ///< false: the file has ended
  std::string_view take_line();

  const FilePool& files_;
  std::size_t file_;
  const std::string& what_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< what is not taken yet, in the buffer
  std::int64_t offset_ = 0;          ///< where buffer_[begin_] is in the file
  std::int64_t number_ = 0;
};

/// The number of the line, from 1, that the byte at `offset` lies in.
std::int64_t line_number_at(const FilePool& files, std::size_t file, std::int64_t offset);

}  // namespace accrue::data
