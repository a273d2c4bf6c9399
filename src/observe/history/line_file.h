#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace accrue::observe {

/// Reads a file line by line, by blocks in one buffer: a file of 100 MB is not held at once.
class LineFile {
 public:
  struct Line {
    std::string_view text;  ///< without its line break, valid until the next call
    bool is_whole = true;   ///< false: the file ends within it
  };

  /// `padding` bytes after each line may be read, whatever they are. A file that cannot be opened
  /// has no lines.
  LineFile(const std::filesystem::path& file, std::size_t padding);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// The next line; none at the end of the file.
  std::optional<Line> next();
  /// Whether the file could not be opened, or not be read to its end.
  bool has_failed() const { return has_failed_; }

 private:
  bool read_more();

  int descriptor_;
  std::size_t padding_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< the part that was read and not returned yet
  bool has_failed_;
};

}  // namespace accrue::observe
