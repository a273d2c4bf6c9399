#include "data/chat/template/syntax/text_literal.h"

#include <charconv>

#include "core/utf8.h"
#include "data/chat/template/syntax/template_lexer.h"

namespace accrue::data::jinja {
namespace {

class LiteralReader {
 public:
  LiteralReader(std::string_view written, const std::string& what, int line)
      : written_(written), what_(what), line_(line) {}

  std::string run() {
    while (at_ < written_.size()) {
      if (written_[at_] == '\\')
        read_escape();
      else
        text_ += written_[at_++];
    }
    return std::move(text_);
  }

 private:
  void read_escape() {
    constexpr std::string_view letters = "\\'\"abfnrtv";
    constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
    const char escaped = written_[++at_];
    if (const std::size_t known = letters.find(escaped); known != std::string_view::npos) {
      text_ += meanings[known];
      ++at_;
    } else if (escaped == '\n') {
      ++at_;
    } else if (escaped >= '0' && escaped <= '7') {
      read_octal();
    } else if (escaped == 'x' || escaped == 'u' || escaped == 'U') {
      ++at_;
      read_code_point(escaped == 'x' ? 2 : escaped == 'u' ? 4 : 8);
    } else if (escaped == 'N') {
      refuse("\\N, a character by its name");
    } else if (static_cast<unsigned char>(escaped) >= 0x80) {
      write_escaped();
    } else {
      text_ += {'\\', escaped};
      ++at_;
    }
  }

  void read_octal() {
    char32_t code_point = 0;
    for (int digits = 0;
         digits < 3 && at_ < written_.size() && written_[at_] >= '0' && written_[at_] <= '7';
         ++digits)
      code_point = code_point * 8 + static_cast<char32_t>(written_[at_++] - '0');
    append_utf8(code_point, text_);
  }

  void read_code_point(std::size_t digits) {
    std::uint32_t code_point = 0;
    const std::string_view stated = written_.substr(at_, digits);
    const auto [end, error] =
        std::from_chars(stated.data(), stated.data() + stated.size(), code_point, 16);
    const bool is_whole = stated.size() == digits && end == stated.data() + stated.size();
    if (!is_whole || error != std::errc()) refuse("an escape without its digits");
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point <= 0xdfff))
      refuse("the escape of half a pair, or of none");
    append_utf8(code_point, text_);
    at_ += digits;
  }

  /// A backslash before a character beyond ASCII: that character's escape, as text.
  void write_escaped() {
    const char32_t code_point = code_point_at(written_, at_);
    const int digits = code_point < 0x100 ? 2 : code_point < 0x10000 ? 4 : 8;
    text_ += {'\\', digits == 2 ? 'x' : digits == 4 ? 'u' : 'U'};
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
      text_ += "0123456789abcdef"[(code_point >> shift) & 0xf];
    at_ += utf8_length(written_[at_]);
  }

  [[noreturn]] void refuse(const std::string& received) const {
    refuse_template(what_, "escapes of characters in a text", received, line_);
  }

  std::string_view written_;
  const std::string& what_;
  int line_;
  std::size_t at_ = 0;
  std::string text_;
};

}  // namespace

std::string text_of_literal(std::string_view written, const std::string& what, int line) {
  return LiteralReader(written, what, line).run();
}

}  // namespace accrue::data::jinja
