#include "data/text/sources/line_reader.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r") == text.npos; }

}  // namespace

LineReader::LineReader(const FilePool& files, std::size_t file, const std::string& what)
    : files_(files), file_(file), what_(what) {}

std::optional<Line> LineReader::next() {
  while (begin_ < end_ || read_more()) {
    const std::int64_t line_begin = offset_;
    const std::string_view text = take_line();
    ++number_;
    if (!is_blank(text)) return Line{.number = number_, .begin = line_begin, .text = text};
  }
  return std::nullopt;
}

std::string_view LineReader::take_line() {
  std::size_t searched = 0;
  while (true) {
    const char* begin = buffer_.data() + begin_;
    const auto* feed =
        static_cast<const char*>(std::memchr(begin + searched, '\n', end_ - begin_ - searched));
    searched = end_ - begin_;
    if (feed == nullptr && read_more()) continue;
    begin = buffer_.data() + begin_;  // reading may have moved the buffer
    const std::size_t length =
        feed != nullptr ? static_cast<std::size_t>(feed - begin) : end_ - begin_;
    const std::size_t taken = length + (feed != nullptr ? 1 : 0);
    begin_ += taken;
    offset_ += static_cast<std::int64_t>(taken);
    return {begin, length};
  }
}

bool LineReader::read_more() {
  const std::size_t kept = end_ - begin_;
  const std::int64_t left = files_.bytes(file_) - offset_ - static_cast<std::int64_t>(kept);
  if (left <= 0) return false;
  if (static_cast<std::int64_t>(kept) > longest_bytes) {
    throw usage_error(
        what_, "lines of at most " + std::to_string(longest_bytes) + " bytes",
        files_.path(file_).string() + ":" + std::to_string(number_ + 1) + ": a longer one",
        "JSON lines: an object per line");
  }
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
  begin_ = 0;
  // It reads at least as much again as is kept, so that a long line is seldom moved.
  const auto more = std::min({static_cast<std::size_t>(left), std::max(block_bytes, kept),
                              std::size_t{longest_bytes} + block_bytes - kept});
  buffer_.resize(std::max(buffer_.size(), kept + more));
  files_.read(file_, offset_ + static_cast<std::int64_t>(kept),
              std::as_writable_bytes(std::span(buffer_)).subspan(kept, more));
  end_ = kept + more;
  return true;
}

std::int64_t line_number_at(const FilePool& files, std::size_t file, std::int64_t offset) {
  std::vector<char> buffer;
  std::int64_t number = 1;
  for (std::int64_t done = 0; done < offset; done += std::ssize(buffer)) {
    buffer.resize(std::min(block_bytes, static_cast<std::size_t>(offset - done)));
    files.read(file, done, std::as_writable_bytes(std::span(buffer)));
    number += std::count(buffer.begin(), buffer.end(), '\n');
  }
  return number;
}

}  // namespace accrue::data
