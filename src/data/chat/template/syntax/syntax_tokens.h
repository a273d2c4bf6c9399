#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/template/syntax/template_lexer.h"

namespace accrue::data::jinja {

/// The tokens of a template, read in order by the two halves of the parser.
class SyntaxTokens {
 public:
  SyntaxTokens(std::vector<Token> tokens, const std::string& what)
      : tokens_(std::move(tokens)), what_(what) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool is(Token::Kind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return is(Token::Kind::op) && current().text == op; }
  bool is_name(std::string_view name) const {
    return is(Token::Kind::name) && current().text == name;
  }
  Token next() {
    Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_op(std::string_view op) {
    if (!is_op(op)) return false;
    next();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    next();
    return true;
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) refuse("'" + std::string(op) + "'");
  }
  std::string expect_name() {
    if (!is(Token::Kind::name)) refuse("a name");
    return next().text;
  }
  int line() const { return current().line; }
  const std::string& what() const { return what_; }

  /// Reports what was found instead of the expected.
  [[noreturn]] void refuse(const std::string& expected) const { refuse(expected, shown()); }
  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const {
    refuse_template(what_, expected, received, line());
  }

 private:
  std::string shown() const {
    using enum Token::Kind;
    switch (current().kind) {
      case print_begin:
        return "'{{'";
      case print_end:
        return "'}}'";
      case block_begin:
        return "'{%'";
      case block_end:
        return "'%}'";
      case end:
        return "the end of the template";
      case data:
        return "text";
      default:
        return "'" + current().text + "'";
    }
  }

  std::vector<Token> tokens_;
  const std::string& what_;
  std::size_t at_ = 0;
};

}  // namespace accrue::data::jinja
