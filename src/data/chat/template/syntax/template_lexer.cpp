#include "data/chat/template/syntax/template_lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "accrue/core/error.h"
#include "core/utf8.h"
#include "data/chat/template/syntax/text_literal.h"
#include "data/chat/template/values/python_text.h"

namespace accrue::data::jinja {
namespace {

constexpr auto no_place = std::string_view::npos;

/// Line ends as \n, and without the last one of the template.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  for (std::size_t at = 0; at < source.size(); ++at) {
    const bool is_return = source[at] == '\r';
    if (is_return && at + 1 < source.size() && source[at + 1] == '\n') ++at;
    text += is_return ? '\n' : source[at];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_name(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The number of characters of digits, with single underscores between them.
std::size_t digits_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() &&
         (is_digit(text[length]) || (length > 0 && text[length] == '_' &&
                                     length + 1 < text.size() && is_digit(text[length + 1]))))
    ++length;
  return length;
}

/// The number of characters of a float; 0 if there is none.
std::size_t real_length(std::string_view text) {
  const std::size_t whole = digits_length(text);
  if (whole == 0) return 0;
  std::size_t length = whole;
  if (length < text.size() && text[length] == '.')
    if (const std::size_t fraction = digits_length(text.substr(length + 1)); fraction > 0)
      length += 1 + fraction;
  if (length < text.size() && (text[length] == 'e' || text[length] == 'E')) {
    std::size_t exponent = length + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (const std::size_t digits = digits_length(text.substr(exponent)); digits > 0)
      return exponent + digits;
  }
  return length == whole ? 0 : length;
}

class Lexer {
 public:
  Lexer(std::string source, const std::string& what) : source_(std::move(source)), what_(what) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data_and_tag();
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  enum class Tag { print, block, comment };

  void read_data_and_tag() {
    const std::size_t begin = next_tag();
    if (begin == no_place) {
      add_data(rest());
      move_to(source_.size());
      return;
    }
    const Tag tag = source_[begin + 1] == '{'   ? Tag::print
                    : source_[begin + 1] == '%' ? Tag::block
                                                : Tag::comment;
    const std::size_t sign_at = begin + 2;
    const char sign = sign_at < source_.size() ? source_[sign_at] : '\0';
    add_data(before_tag(std::string_view(source_).substr(at_, begin - at_), sign, tag));
    move_to(begin);
    const std::size_t inside = sign_at + (sign == '-' || sign == '+' ? 1 : 0);
    if (tag == Tag::comment) return skip_comment(inside);
    if (tag == Tag::block && is_raw(inside)) return read_raw(inside);
    add(tag == Tag::print ? Token::Kind::print_begin : Token::Kind::block_begin, "");
    move_to(inside);
    read_tag(tag);
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  std::size_t next_tag() const {
    for (std::size_t at = source_.find('{', at_); at != no_place; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return no_place;
  }

  /// The text before a tag, without the white space that the tag removes.
  std::string_view before_tag(std::string_view text, char sign, Tag tag) const {
    if (sign == '-') return stripped_right(text);
    if (sign == '+' || tag == Tag::print) return text;
    const std::size_t line = text.rfind('\n') + 1;  // 0 if there is none
    if (line == 0 && !begins_line_) return text;
    return is_white_space(text.substr(line)) ? text.substr(0, line) : text;
  }

  void add_data(std::string_view text) {
    if (!text.empty()) add(Token::Kind::data, std::string(text));
  }

  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  void move_to(std::size_t place) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                    source_.begin() + static_cast<std::ptrdiff_t>(place), '\n'));
    begins_line_ = place > 0 && source_[place - 1] == '\n';
    at_ = place;
  }

  /// The position after the end of a tag at `place`, if any: `closing` with - or + before it.
  std::optional<std::size_t> behind_end(std::size_t place, std::string_view closing, bool trims,
                                        bool may_keep) const {
    const std::string_view text = std::string_view(source_).substr(std::min(place, source_.size()));
    if (text.starts_with(closing)) {
      const std::size_t end = place + closing.size();
      return end + (trims && end < source_.size() && source_[end] == '\n' ? 1 : 0);
    }
    const bool has_sign = !text.empty() && text.substr(1).starts_with(closing);
    if (has_sign && text[0] == '-') {
      const std::size_t end = place + 1 + closing.size();
      return end + white_space_length(std::string_view(source_).substr(end));
    }
    if (has_sign && text[0] == '+' && may_keep) return place + 1 + closing.size();
    return std::nullopt;
  }

  void skip_comment(std::size_t inside) {
    for (std::size_t at = inside; at < source_.size(); ++at)
      if (const auto end = behind_end(at, "#}", true, true)) return move_to(*end);
    refuse("the end of a comment, #}", "the end of the template");
  }

  /// The position after a word, which may have white space before it.
  std::optional<std::size_t> behind_word(std::size_t place, std::string_view word) const {
    const std::string_view text = std::string_view(source_).substr(place);
    const std::size_t begin = white_space_length(text);
    if (!text.substr(begin).starts_with(word)) return std::nullopt;
    return place + begin + word.size();
  }

  std::optional<std::size_t> behind_raw(std::size_t inside) const {
    const auto word = behind_word(inside, "raw");
    if (!word) return std::nullopt;
    const std::size_t end = *word + white_space_length(std::string_view(source_).substr(*word));
    return behind_end(end, "%}", false, false);
  }

  bool is_raw(std::size_t inside) const { return behind_raw(inside).has_value(); }

  void read_raw(std::size_t inside) {
    move_to(*behind_raw(inside));
    for (std::size_t at = source_.find("{%", at_); at != no_place;
         at = source_.find("{%", at + 1)) {
      const char sign = at + 2 < source_.size() ? source_[at + 2] : '\0';
      const auto word = behind_word(at + 2 + (sign == '-' || sign == '+' ? 1 : 0), "endraw");
      if (!word) continue;
      const std::size_t closing =
          *word + white_space_length(std::string_view(source_).substr(*word));
      const auto end = behind_end(closing, "%}", true, true);
      if (!end) continue;
      add_data(before_tag(std::string_view(source_).substr(at_, at - at_), sign, Tag::block));
      return move_to(*end);
    }
    refuse("{% endraw %}", "the end of the template");
  }

  void read_tag(Tag tag) {
    const bool is_block = tag == Tag::block;
    open_.clear();
    while (true) {
      move_to(at_ + white_space_length(rest()));
      if (open_.empty()) {
        if (const auto end = behind_end(at_, is_block ? "%}" : "}}", is_block, is_block)) {
          add(is_block ? Token::Kind::block_end : Token::Kind::print_end, "");
          return move_to(*end);
        }
      }
      if (at_ == source_.size()) refuse("the end of a tag", "the end of the template");
      read_token();
    }
  }

  void read_token() {
    const std::string_view text = rest();
    if (const std::size_t length = after_dot() ? 0 : real_length(text); length > 0)
      return take(Token::Kind::real, length);
    if (is_digit(text[0])) return take(Token::Kind::integer, integer_length(text));
    if (is_of_name(text[0])) {
      std::size_t length = 0;
      while (length < text.size() && is_of_name(text[length])) ++length;
      return take(Token::Kind::name, length);
    }
    if (text[0] == '\'' || text[0] == '"') return take_text(text);
    take_operator(text);
  }

  bool after_dot() const { return at_ > 0 && source_[at_ - 1] == '.'; }

  std::size_t integer_length(std::string_view text) const {
    const bool has_base = text.size() > 2 && text[0] == '0' &&
                          std::string_view("bBoOxX").find(text[1]) != no_place &&
                          is_of_name(text[2]);
    if (has_base) refuse("decimal integers", "'" + std::string(text.substr(0, 3)) + "...'");
    if (text[0] != '0') return digits_length(text);
    std::size_t length = 1;
    while (length < text.size() && text[length] == '0') ++length;
    return length;
  }

  void take(Token::Kind kind, std::size_t length) {
    std::string text(rest().substr(0, length));
    if (kind == Token::Kind::integer || kind == Token::Kind::real) std::erase(text, '_');
    add(kind, std::move(text));
    move_to(at_ + length);
  }

  void take_text(std::string_view text) {
    std::size_t end = 1;
    while (end < text.size() && text[end] != text[0]) end += text[end] == '\\' ? 2 : 1;
    if (end >= text.size()) refuse("the end of a text", "the end of the template");
    add(Token::Kind::text, text_of_literal(text.substr(1, end - 1), what_, line_));
    move_to(at_ + end + 1);
  }

  void take_operator(std::string_view text) {
    constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view pair : pairs)
      if (text.starts_with(pair)) return take(Token::Kind::op, pair.size());
    constexpr std::string_view singles = "+-/*%~[](){}><=.:|,;";
    if (singles.find(text[0]) == no_place)
      refuse("a name of ASCII letters, a number, a text or an operator",
             "'" + std::string(text.substr(0, utf8_length(text[0]))) + "'");
    balance(text[0]);
    take(Token::Kind::op, 1);
  }

  void balance(char bracket) {
    constexpr std::string_view opening = "([{", closing = ")]}";
    if (const std::size_t kind = opening.find(bracket); kind != no_place) open_ += closing[kind];
    if (closing.find(bracket) == no_place) return;
    if (open_.empty() || open_.back() != bracket)
      refuse(open_.empty() ? "no closing bracket" : std::string("'") + open_.back() + "'",
             std::string("'") + bracket + "'");
    open_.pop_back();
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const {
    refuse_template(what_, expected, received, line_);
  }

  std::string source_;
  const std::string& what_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool begins_line_ = true;
  std::string open_;  // the brackets still to close, the innermost last
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source, const std::string& what) {
  if (valid_utf8_prefix(source) != source.size())
    refuse_template(what, "a template in UTF-8", "other bytes", 1);
  return Lexer(with_plain_lines(source), what).run();
}

void refuse_template(const std::string& what, const std::string& expected,
                     const std::string& received, int line) {
  throw usage_error(
      what, expected, received + " in line " + std::to_string(line) + " of the template",
      "the chat template that the model came with, or one of what this version knows");
}

}  // namespace accrue::data::jinja
