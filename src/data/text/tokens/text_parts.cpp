#include "data/text/tokens/text_parts.h"

#include <algorithm>
#include <span>

#include "accrue/core/error.h"
#include "core/utf8.h"

namespace accrue::data {
namespace {

/// Bytes examined before and after a position: more than any word of text.
constexpr std::size_t neighbourhood = 2048;
/// Positions that are tried before more of the file is read.
constexpr int most_tried = 8;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Whether a line ends before `place` and another begins there, neither with white space: the last
/// of several spaces may belong to what follows.
bool is_between_lines(std::string_view text, std::size_t place) {
  return place >= 2 && place < text.size() && text[place - 1] == '\n' &&
         !is_space(text[place - 2]) && !is_space(text[place]);
}

std::size_t begin_of_character(std::string_view text, std::size_t place) {
  while (place > 0 && (static_cast<unsigned char>(text[place]) & 0xc0) == 0x80) --place;
  return place;
}

}  // namespace

TextParts::TextParts(const FilePool& files, const Tokenizer& tokenizer, const std::string& what,
                     std::size_t wanted_bytes)
    : files_(files), encoder_(tokenizer), what_(what), wanted_(wanted_bytes) {}

std::optional<std::string> TextParts::next() {
  for (; file_ < files_.count(); ++file_, offset_ = 0) {
    while (read_more())
      if (const std::size_t end = find_end()) return take(end);
    if (!pending_.empty()) return take(pending_.size());
  }
  return std::nullopt;
}

bool TextParts::read_more() {
  const std::int64_t left = files_.bytes(file_) - offset_;
  if (left <= 0) return false;
  if (pending_.size() >= most_bytes)
    throw usage_error(
        what_, "text files of at most 1 GiB, or a tokenizer that lets them be cut",
        files_.path(file_).string() + ": more, with no line where its tokens may be cut",
        "the text in several files");
  const std::size_t known = pending_.size(),
                    more = std::min(static_cast<std::size_t>(left), wanted_);
  pending_.resize(known + more);
  files_.read(file_, offset_, std::as_writable_bytes(std::span(pending_)).subspan(known));
  offset_ += static_cast<std::int64_t>(more);
  return true;
}

/// Searches from the end, so that a part is not much smaller than what was read.
std::size_t TextParts::find_end() {
  if (pending_.size() < wanted_ || pending_.size() < 2 * neighbourhood) return 0;
  const std::size_t last = pending_.size() - neighbourhood,
                    first = std::max(neighbourhood, looked_at_);
  int tried = 0;
  for (std::size_t place = last; place > first && tried < most_tried; --place) {
    if (!is_between_lines(pending_, place)) continue;
    if (is_neutral(place)) return place;
    ++tried;
  }
  looked_at_ = last;
  return 0;
}

bool TextParts::is_neutral(std::size_t place) {
  const std::string_view text(pending_);
  const std::size_t begin = begin_of_character(text, place - neighbourhood),
                    end = begin_of_character(text, place + neighbourhood - 1);
  const std::string_view around = text.substr(begin, end - begin);
  if (valid_utf8_prefix(around) != around.size()) return false;  // reading the part reports where
  whole_.clear();
  halves_.clear();
  encoder_.encode(around, whole_);
  encoder_.encode(text.substr(begin, place - begin), halves_);
  encoder_.encode(text.substr(place, end - place), halves_);
  return whole_ == halves_;
}

std::string TextParts::take(std::size_t size) {
  const std::size_t valid = valid_utf8_prefix(std::string_view(pending_).substr(0, size));
  if (valid != size) {
    const std::int64_t place = offset_ - std::ssize(pending_) + static_cast<std::int64_t>(valid);
    throw usage_error(
        what_, "text in UTF-8",
        files_.path(file_).string() + ": another byte at place " + std::to_string(place),
        "the text in UTF-8 (iconv -t UTF-8), or data.tokenizer = \"bytes\"");
  }
  std::string part = pending_.substr(0, size);
  pending_.erase(0, size);
  looked_at_ = 0;
  return part;
}

}  // namespace accrue::data
