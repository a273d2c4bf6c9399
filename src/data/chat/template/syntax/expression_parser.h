#pragma once

#include <string_view>

#include "data/chat/template/syntax/syntax_tokens.h"
#include "data/chat/template/syntax/template_nodes.h"

namespace accrue::data::jinja {

/// Parses expressions, by the grammar of jinja2 (3.1, parser.py). Throws a usage Error that names
/// the line and what this version does not know: filters, tests, functions, syntax.
class ExpressionParser {
 public:
  explicit ExpressionParser(SyntaxTokens& tokens) : tokens_(tokens) {}

  ExpressionPointer expression(bool with_conditional = true);
  /// Expressions with commas between them are a tuple. `stop` is a name that ends it, in addition
  /// to the usual ends.
  ExpressionPointer tuple(bool with_conditional = true, std::string_view stop = "",
                          bool in_parentheses = false);
  ExpressionPointer primary();
  /// One or more filters of a block's content: `upper | trim`.
  ExpressionPointer filters_of_block();

  /// The variables named so far.
  const std::vector<std::string>& names() const { return names_; }

 private:
  /// Counts how deep expressions are nested while it exists.
  class Nested;

  ExpressionPointer conditional();
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filter = true);
  ExpressionPointer postfix(ExpressionPointer object);
  ExpressionPointer filtered(ExpressionPointer input);
  ExpressionPointer filter(ExpressionPointer input);
  ExpressionPointer test(ExpressionPointer input);
  ExpressionPointer member(ExpressionPointer object);
  ExpressionPointer subscript(ExpressionPointer object);
  ExpressionPointer slice(ExpressionPointer object, ExpressionPointer start);
  ExpressionPointer call(ExpressionPointer callee);
  ExpressionPointer name();
  ExpressionPointer number();
  ExpressionPointer text();
  ExpressionPointer list();
  ExpressionPointer dict();
  Arguments arguments();
  bool ends_tuple(std::string_view stop) const;
  bool begins_argument_of_test() const;
  std::string dotted_name();

  SyntaxTokens& tokens_;
  std::vector<std::string> names_;
  int nested_ = 0;
};

}  // namespace accrue::data::jinja
