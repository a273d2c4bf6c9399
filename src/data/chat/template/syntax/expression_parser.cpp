#include "data/chat/template/syntax/expression_parser.h"

#include <array>

#include "data/chat/template/functions/template_filters.h"
#include "data/chat/template/functions/template_tests.h"
#include "data/chat/template/syntax/node_maker.h"

namespace accrue::data::jinja {

class ExpressionParser::Nested {
 public:
  explicit Nested(ExpressionParser& parser) : parser_(parser) {
    constexpr int deepest = 100;
    if (++parser_.nested_ > deepest)
      parser_.tokens_.refuse("expressions nested at most " + std::to_string(deepest) + " deep",
                             "deeper ones");
  }
  ~Nested() { --parser_.nested_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  ExpressionParser& parser_;
};

ExpressionPointer ExpressionParser::expression(bool with_conditional) {
  const Nested nested(*this);
  return with_conditional ? conditional() : disjunction();
}

ExpressionPointer ExpressionParser::tuple(bool with_conditional, std::string_view stop,
                                          bool in_parentheses) {
  Expressions items;
  bool is_tuple = false;
  while (!ends_tuple(stop)) {
    items.push_back(expression(with_conditional));
    if (!tokens_.skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items.front());
  if (!is_tuple && !in_parentheses) tokens_.refuse("an expression");
  const int inside = depth_of_node(items);
  return make_expression(tokens_, ListOf{std::move(items), true}, inside);
}

bool ExpressionParser::ends_tuple(std::string_view stop) const {
  return tokens_.is(Token::Kind::print_end) || tokens_.is(Token::Kind::block_end) ||
         tokens_.is_op(")") || (!stop.empty() && tokens_.is_name(stop));
}

ExpressionPointer ExpressionParser::conditional() {
  ExpressionPointer yes = disjunction();
  while (tokens_.skip_name("if")) {
    ExpressionPointer condition = disjunction();
    ExpressionPointer no;
    if (tokens_.skip_name("else")) {
      const Nested nested(*this);
      no = conditional();
    }
    const int inside = std::max({depth_of_node(yes), depth_of_node(condition), depth_of_node(no)});
    yes = make_expression(tokens_, Conditional{std::move(condition), std::move(yes), std::move(no)},
                          inside);
  }
  return yes;
}

ExpressionPointer ExpressionParser::disjunction() {
  ExpressionPointer left = conjunction();
  while (tokens_.skip_name("or")) {
    ExpressionPointer right = conjunction();
    const int inside = std::max(left->depth, right->depth);
    left = make_expression(tokens_, Logic{false, std::move(left), std::move(right)}, inside);
  }
  return left;
}

ExpressionPointer ExpressionParser::conjunction() {
  ExpressionPointer left = negation();
  while (tokens_.skip_name("and")) {
    ExpressionPointer right = negation();
    const int inside = std::max(left->depth, right->depth);
    left = make_expression(tokens_, Logic{true, std::move(left), std::move(right)}, inside);
  }
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  if (!tokens_.skip_name("not")) return comparison();
  const Nested nested(*this);
  ExpressionPointer operand = negation();
  const int inside = operand->depth;
  return make_expression(tokens_, Unary{Unary::Op::no, std::move(operand)}, inside);
}

ExpressionPointer ExpressionParser::comparison() {
  constexpr std::array<std::string_view, 6> operators = {"==", "!=", "<", "<=", ">", ">="};
  Comparison chain{sum(), {}};
  int inside = chain.first->depth;
  while (true) {
    std::string op;
    const bool is_known = tokens_.is(Token::Kind::op) &&
                          std::ranges::find(operators, tokens_.current().text) != operators.end();
    if (is_known) {
      op = tokens_.next().text;
    } else if (tokens_.skip_name("in")) {
      op = "in";
    } else if (tokens_.is_name("not") && tokens_.following().text == "in" &&
               tokens_.following().kind == Token::Kind::name) {
      tokens_.next();
      tokens_.next();
      op = "not in";
    } else {
      break;
    }
    chain.rest.emplace_back(op, sum());
    inside = std::max(inside, chain.rest.back().second->depth);
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make_expression(tokens_, std::move(chain), inside);
}

ExpressionPointer ExpressionParser::sum() {
  ExpressionPointer left = concatenation();
  while (tokens_.is_op("+") || tokens_.is_op("-")) {
    std::string op = tokens_.next().text;
    ExpressionPointer right = concatenation();
    const int inside = std::max(left->depth, right->depth);
    left = make_expression(tokens_, Arithmetic{std::move(op), std::move(left), std::move(right)},
                           inside);
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  Expressions parts;
  parts.push_back(product());
  while (tokens_.skip_op("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts.front());
  const int inside = depth_of_node(parts);
  return make_expression(tokens_, Concatenation{std::move(parts)}, inside);
}

ExpressionPointer ExpressionParser::product() {
  ExpressionPointer left = power();
  while (tokens_.is_op("*") || tokens_.is_op("/") || tokens_.is_op("//") || tokens_.is_op("%")) {
    std::string op = tokens_.next().text;
    ExpressionPointer right = power();
    const int inside = std::max(left->depth, right->depth);
    left = make_expression(tokens_, Arithmetic{std::move(op), std::move(left), std::move(right)},
                           inside);
  }
  return left;
}

ExpressionPointer ExpressionParser::power() {
  ExpressionPointer left = unary();
  while (tokens_.skip_op("**")) {
    ExpressionPointer right = unary();
    const int inside = std::max(left->depth, right->depth);
    left = make_expression(tokens_, Arithmetic{"**", std::move(left), std::move(right)}, inside);
  }
  return left;
}

ExpressionPointer ExpressionParser::unary(bool with_filter) {
  ExpressionPointer value;
  if (tokens_.is_op("-") || tokens_.is_op("+")) {
    const Nested nested(*this);
    const auto op = tokens_.next().text == "-" ? Unary::Op::minus : Unary::Op::plus;
    value = unary(false);
    const int inside = value->depth;
    value = make_expression(tokens_, Unary{op, std::move(value)}, inside);
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filtered(std::move(value)) : std::move(value);
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer object) {
  while (true) {
    if (tokens_.skip_op("."))
      object = member(std::move(object));
    else if (tokens_.skip_op("["))
      object = subscript(std::move(object));
    else if (tokens_.is_op("("))
      object = call(std::move(object));
    else
      return object;
  }
}

ExpressionPointer ExpressionParser::filtered(ExpressionPointer input) {
  while (true) {
    if (tokens_.skip_op("|"))
      input = filter(std::move(input));
    else if (tokens_.skip_name("is"))
      input = test(std::move(input));
    else if (tokens_.is_op("("))
      input = call(std::move(input));
    else
      return input;
  }
}

ExpressionPointer ExpressionParser::filters_of_block() {
  ExpressionPointer input = filter(nullptr);
  while (tokens_.skip_op("|")) input = filter(std::move(input));
  return input;
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect_name();
  while (tokens_.skip_op(".")) name += "." + tokens_.expect_name();
  return name;
}

ExpressionPointer ExpressionParser::filter(ExpressionPointer input) {
  Filter node{std::move(input), dotted_name(), {}};
  if (!is_known_filter(node.name)) {
    tokens_.refuse("a filter that this version knows", "'" + node.name + "'");
  }
  if (tokens_.is_op("(")) node.arguments = arguments();
  const int inside = std::max(depth_of_node(node.input), depth_of_node(node.arguments));
  return make_expression(tokens_, std::move(node), inside);
}

ExpressionPointer ExpressionParser::test(ExpressionPointer input) {
  const bool is_negated = tokens_.skip_name("not");
  Test node{std::move(input), dotted_name(), {}};
  if (!is_known_test(node.name))
    tokens_.refuse("a test that this version knows", "'" + node.name + "'");
  if (tokens_.is_op("(")) {
    node.arguments = arguments();
  } else if (begins_argument_of_test()) {
    if (tokens_.is_name("is")) tokens_.refuse("one test after the other by 'and'", "'is' twice");
    node.arguments.positional.push_back(postfix(primary()));
  }
  const int inside = std::max(depth_of_node(node.input), depth_of_node(node.arguments));
  ExpressionPointer result = make_expression(tokens_, std::move(node), inside);
  if (!is_negated) return result;
  return make_expression(tokens_, Unary{Unary::Op::no, std::move(result)}, inside + 1);
}

bool ExpressionParser::begins_argument_of_test() const {
  const bool is_literal = tokens_.is(Token::Kind::text) || tokens_.is(Token::Kind::integer) ||
                          tokens_.is(Token::Kind::real);
  if (is_literal || tokens_.is_op("(") || tokens_.is_op("[") || tokens_.is_op("{")) return true;
  return tokens_.is(Token::Kind::name) && !tokens_.is_name("else") && !tokens_.is_name("or") &&
         !tokens_.is_name("and");
}

ExpressionPointer ExpressionParser::member(ExpressionPointer object) {
  const int inside = object->depth;
  if (tokens_.is(Token::Kind::name))
    return make_expression(tokens_, Attribute{std::move(object), tokens_.next().text}, inside);
  if (!tokens_.is(Token::Kind::integer)) tokens_.refuse("a name or a number behind '.'");
  return make_expression(tokens_, Subscript{std::move(object), number()}, inside);
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer object) {
  if (tokens_.is_op(":")) return slice(std::move(object), nullptr);
  ExpressionPointer index = expression();
  if (tokens_.is_op(":")) return slice(std::move(object), std::move(index));
  if (tokens_.is_op(",")) tokens_.refuse("one index");
  tokens_.expect_op("]");
  const int inside = std::max(object->depth, index->depth);
  return make_expression(tokens_, Subscript{std::move(object), std::move(index)}, inside);
}

ExpressionPointer ExpressionParser::slice(ExpressionPointer object, ExpressionPointer start) {
  Slice node{std::move(object), std::move(start), nullptr, nullptr};
  tokens_.expect_op(":");
  if (!tokens_.is_op(":") && !tokens_.is_op("]")) node.stop = expression();
  if (tokens_.skip_op(":") && !tokens_.is_op("]")) node.step = expression();
  tokens_.expect_op("]");
  const int inside = std::max({depth_of_node(node.object), depth_of_node(node.start),
                               depth_of_node(node.stop), depth_of_node(node.step)});
  return make_expression(tokens_, std::move(node), inside);
}

ExpressionPointer ExpressionParser::call(ExpressionPointer callee) {
  Call node{std::move(callee), arguments()};
  const int inside = std::max(depth_of_node(node.callee), depth_of_node(node.arguments));
  return make_expression(tokens_, std::move(node), inside);
}

Arguments ExpressionParser::arguments() {
  Arguments given;
  tokens_.expect_op("(");
  while (!tokens_.is_op(")")) {
    if (tokens_.is_op("*") || tokens_.is_op("**"))
      tokens_.refuse("arguments one by one", "'" + tokens_.current().text + "'");
    const bool has_name = tokens_.is(Token::Kind::name) &&
                          tokens_.following().kind == Token::Kind::op &&
                          tokens_.following().text == "=";
    if (has_name) {
      std::string name = tokens_.next().text;
      tokens_.next();
      given.named.emplace_back(std::move(name), expression());
    } else {
      if (!given.named.empty()) tokens_.refuse("arguments with names behind the others");
      given.positional.push_back(expression());
    }
    if (!tokens_.is_op(")")) tokens_.expect_op(",");
  }
  tokens_.next();
  return given;
}

}  // namespace accrue::data::jinja
