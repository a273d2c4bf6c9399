#pragma once

#include <algorithm>
#include <utility>

#include "data/chat/template/syntax/syntax_tokens.h"
#include "data/chat/template/syntax/template_nodes.h"

namespace accrue::data::jinja {

/// Deeper expressions could overflow a thread's stack.
inline constexpr int deepest_expression = 250;

inline int depth_of_node(const ExpressionPointer& expression) {
  return expression == nullptr ? 0 : expression->depth;
}
inline int depth_of_node(const Expressions& expressions) {
  int depth = 0;
  for (const auto& expression : expressions) depth = std::max(depth, expression->depth);
  return depth;
}
inline int depth_of_node(const Arguments& arguments) {
  int depth = depth_of_node(arguments.positional);
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, value->depth);
  return depth;
}

/// An expression at the stream's line; `inside` is the depth of its contents.
template <class Node>
ExpressionPointer make_expression(const SyntaxTokens& tokens, Node node, int inside) {
  if (inside >= deepest_expression)
    tokens.refuse("expressions at most " + std::to_string(deepest_expression) + " deep",
                  "a deeper one");
  return std::make_unique<const Expression>(Expression{std::move(node), tokens.line(), inside + 1});
}

}  // namespace accrue::data::jinja
