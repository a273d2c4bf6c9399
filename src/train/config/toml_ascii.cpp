#include "toml_ascii.h"

#include <algorithm>

namespace accrue::train {
namespace {

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// Walks over TOML, without judging it.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (text_.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  }

  std::optional<std::size_t> first_stray() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (!is_ascii(c)) return at_;
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        if (const auto stray = pass_string(c)) return stray;
      } else {
        ++at_;
      }
    }
    return std::nullopt;
  }

 private:
  /// From its opening quote to behind its closing one, or to the end of the line or text.
  std::optional<std::size_t> pass_string(char quote) {
    const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
    const bool is_multi_line = text_.substr(at_).starts_with(three);
    const std::string_view end = is_multi_line ? three : three.substr(0, 1);
    at_ += end.size();
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with(end)) {
        at_ += end.size();
        // Up to two more quotes are the string's last characters.
        for (int more = 0; is_multi_line && more < 2 && text_.substr(at_).starts_with(quote);
             ++more)
          ++at_;
        return std::nullopt;
      }
      if (text_[at_] == '\n' && !is_multi_line) return std::nullopt;
      if (text_[at_] == '\\' && quote == '"') {
        if (const auto stray = pass_escape(is_multi_line)) return stray;
      } else {
        ++at_;
      }
    }
    return std::nullopt;
  }

  std::optional<std::size_t> pass_escape(bool is_multi_line) {
    ++at_;
    if (is_multi_line) at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    if (at_ >= text_.size()) return std::nullopt;
    if (!is_ascii(text_[at_])) return at_;
    // An escaped quote; behind a line's end a quote may close the string.
    if (text_[at_ - 1] == '\\') ++at_;
    return std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::size_t> stray_character(std::string_view text) {
  return Walk(text).first_stray();
}

}  // namespace accrue::train
