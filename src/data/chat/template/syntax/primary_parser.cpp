#include <charconv>

#include "data/chat/template/syntax/expression_parser.h"
#include "data/chat/template/syntax/node_maker.h"

namespace accrue::data::jinja {

ExpressionPointer ExpressionParser::primary() {
  if (tokens_.is(Token::Kind::name)) return name();
  if (tokens_.is(Token::Kind::text)) return text();
  if (tokens_.is(Token::Kind::integer) || tokens_.is(Token::Kind::real)) return number();
  if (tokens_.skip_op("(")) {
    ExpressionPointer inner = tuple(true, "", true);
    tokens_.expect_op(")");
    return inner;
  }
  if (tokens_.is_op("[")) return list();
  if (tokens_.is_op("{")) return dict();
  tokens_.refuse("an expression");
}

ExpressionPointer ExpressionParser::name() {
  std::string found = tokens_.next().text;
  const auto literal = [&](Value value) {
    return make_expression(tokens_, Literal{std::move(value)}, 0);
  };
  if (found == "true" || found == "True") return literal(Value::boolean(true));
  if (found == "false" || found == "False") return literal(Value::boolean(false));
  if (found == "none" || found == "None") return literal(Value::none());
  const bool is_special = found == "varargs" || found == "kwargs" || found == "caller" ||
                          found == "self" || found == "super";
  if (is_special) tokens_.refuse("names that this version knows", "'" + found + "'");
  names_.push_back(found);
  return make_expression(tokens_, Name{std::move(found)}, 0);
}

ExpressionPointer ExpressionParser::text() {
  std::string whole;
  while (tokens_.is(Token::Kind::text)) whole += tokens_.next().text;
  return make_expression(tokens_, Literal{Value::text(std::move(whole))}, 0);
}

ExpressionPointer ExpressionParser::number() {
  const Token token = tokens_.next();
  const char* const end = token.text.data() + token.text.size();
  std::int64_t integral = 0;
  double real = 0;
  const bool is_real = token.kind == Token::Kind::real;
  const auto read = is_real ? std::from_chars(token.text.data(), end, real)
                            : std::from_chars(token.text.data(), end, integral);
  if (read.ec != std::errc() || read.ptr != end)
    tokens_.refuse("a number of at most 63 bits and a sign", "'" + token.text + "'");
  Value value = is_real ? Value::real(real) : Value::integer(integral);
  return make_expression(tokens_, Literal{std::move(value)}, 0);
}

ExpressionPointer ExpressionParser::list() {
  Expressions items;
  tokens_.expect_op("[");
  while (!tokens_.is_op("]")) {
    items.push_back(expression());
    if (!tokens_.is_op("]")) tokens_.expect_op(",");
  }
  tokens_.next();
  const int inside = depth_of_node(items);
  return make_expression(tokens_, ListOf{std::move(items), false}, inside);
}

ExpressionPointer ExpressionParser::dict() {
  DictOf node;
  int inside = 0;
  tokens_.expect_op("{");
  while (!tokens_.is_op("}")) {
    ExpressionPointer key = expression();
    tokens_.expect_op(":");
    ExpressionPointer value = expression();
    inside = std::max({inside, key->depth, value->depth});
    node.entries.emplace_back(std::move(key), std::move(value));
    if (!tokens_.is_op("}")) tokens_.expect_op(",");
  }
  tokens_.next();
  return make_expression(tokens_, std::move(node), inside);
}

}  // namespace accrue::data::jinja
