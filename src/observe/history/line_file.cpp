#include "observe/history/line_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/open_file.h"

namespace accrue::observe {

LineFile::LineFile(const std::filesystem::path& file, std::size_t padding)
    : descriptor_(open_to_read(file).file.release()),
      padding_(padding),
      buffer_((std::size_t{1} << 20) + padding),
      has_failed_(descriptor_ < 0) {}

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<LineFile::Line> LineFile::next() {
  std::size_t searched = 0;
  while (true) {
    const char* const text = buffer_.data() + begin_;
    const std::size_t length = end_ - begin_;
    const void* const found = std::memchr(text + searched, '\n', length - searched);
    if (found != nullptr) {
      const auto line_length = static_cast<std::size_t>(static_cast<const char*>(found) - text);
      begin_ += line_length + 1;
      return Line{{text, line_length}};
    }
    searched = length;
    if (read_more()) continue;
    if (length == 0) return std::nullopt;
    begin_ = end_;
    return Line{{buffer_.data() + end_ - length, length}, false};
  }
}

/// Moves the rest to the buffer's front, which grows if the rest fills it, and reads on after it.
/// False at the end of the file.
bool LineFile::read_more() {
  if (has_failed_) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ + padding_ == buffer_.size()) buffer_.resize(2 * end_ + padding_);
  ssize_t got = -1;
  do {
    got = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - padding_ - end_);
  } while (got < 0 && errno == EINTR);
  has_failed_ = got < 0;
  if (got > 0) end_ += static_cast<std::size_t>(got);
  return got > 0;
}

}  // namespace accrue::observe
