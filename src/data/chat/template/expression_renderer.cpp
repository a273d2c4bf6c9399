#include "data/chat/template/functions/template_filters.h"
#include "data/chat/template/functions/template_tests.h"
#include "data/chat/template/template_renderer.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_order.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

bool compares(const std::string& op, const Value& left, const Value& right, Work& work) {
  if (op == "in") return is_in(left, right, work);
  if (op == "not in") return !is_in(left, right, work);
  CallArguments arguments{op, {right}, {}};
  return passes_test(left, std::move(arguments), work);
}

std::optional<std::int64_t> bound_of(const Value& value) {
  if (value.is<None>()) return std::nullopt;
  if (!value.is_integral()) throw Failure("integers as bounds of a slice", value.type_name());
  return value.as_integer();
}

}  // namespace

Value Renderer::value_of(const Expression& expression, const ScopePointer& scope) {
  const Deeper deeper(*this);
  work_.spend(Work::per_node);
  line_ = expression.line;
  return std::visit([&](const auto& node) { return value_of(node, scope); }, expression.node);
}

Value Renderer::value_of(const Literal& node, const ScopePointer&) { return node.value; }

Value Renderer::value_of(const Name& node, const ScopePointer& scope) {
  if (const Value* const found = scope->find(node.name, work_)) return *found;
  if (node.name == "loop" && scope->find_loop() != nullptr)
    throw Failure("attributes of 'loop'", "'loop' by itself");
  if (is_global(node.name))
    return Value(
        Value::Kinds(std::make_shared<const Callable>(Callable{Callable::Global{node.name}})));
  return Value::undefined("'" + node.name + "'");
}

Value Renderer::value_of(const ListOf& node, const ScopePointer& scope) {
  std::vector<Value> items;
  for (const auto& item : node.items) items.push_back(value_of(*item, scope));
  return node.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value Renderer::value_of(const DictOf& node, const ScopePointer& scope) {
  Entries entries;
  for (const auto& [key, value] : node.entries) {
    Value name = value_of(*key, scope);
    put_entry(entries, std::move(name), value_of(*value, scope), work_);
  }
  return Value::mapping(std::move(entries));
}

Value Renderer::value_of(const Unary& node, const ScopePointer& scope) {
  const Value operand = value_of(*node.operand, scope);
  if (node.op == Unary::Op::no) return Value::boolean(!is_true(operand));
  if (node.op == Unary::Op::minus) return negated(operand);
  if (!operand.is_number()) throw Failure("a number behind '+'", operand.type_name());
  return operand.is<double>() ? operand : Value::integer(operand.as_integer());
}

Value Renderer::value_of(const Arithmetic& node, const ScopePointer& scope) {
  const Value left = value_of(*node.left, scope);
  const Value right = value_of(*node.right, scope);

  return arithmetic(node.op, left, right, work_);
}

Value Renderer::value_of(const Logic& node, const ScopePointer& scope) {
  Value left = value_of(*node.left, scope);
  return is_true(left) == node.is_and ? value_of(*node.right, scope) : std::move(left);
}

Value Renderer::value_of(const Comparison& node, const ScopePointer& scope) {
  Value left = value_of(*node.first, scope);
  for (const auto& [op, operand] : node.rest) {
    Value right = value_of(*operand, scope);
    if (!compares(op, left, right, work_)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Renderer::value_of(const Concatenation& node, const ScopePointer& scope) {
  std::string text;
  for (const auto& part : node.parts) text += str_of(value_of(*part, scope), work_);
  work_.spend(text.size());
  return Value::text(std::move(text));
}

Value Renderer::value_of(const Conditional& node, const ScopePointer& scope) {
  if (is_true(value_of(*node.condition, scope))) return value_of(*node.yes, scope);
  return node.no == nullptr ? Value::undefined("the 'else' of an 'if'") : value_of(*node.no, scope);
}

LoopState* Renderer::loop_of(const Expression& expression, const Scope& scope) {
  const auto* const name = std::get_if<Name>(&expression.node);
  const bool is_loop =
      name != nullptr && name->name == "loop" && scope.find("loop", work_) == nullptr;
  return is_loop ? scope.find_loop() : nullptr;
}

Value Renderer::value_of(const Attribute& node, const ScopePointer& scope) {
  if (LoopState* const loop = loop_of(*node.object, *scope)) {
    if (const auto found = loop->attribute(node.name)) return *found;
    throw Failure("an attribute of 'loop' that this version knows", "'" + node.name + "'");
  }
  return attribute_of(value_of(*node.object, scope), node.name, work_);
}

Value Renderer::value_of(const Subscript& node, const ScopePointer& scope) {
  const Value index = value_of(*node.index, scope);
  if (LoopState* const loop = loop_of(*node.object, *scope); loop != nullptr && index.is_text())
    if (const auto found = loop->attribute(index.as_text())) return *found;
  return element_of(value_of(*node.object, scope), index, work_);
}

Value Renderer::value_of(const Slice& node, const ScopePointer& scope) {
  const Value object = value_of(*node.object, scope);
  const auto bound = [&](const ExpressionPointer& expression) {
    return expression == nullptr ? std::nullopt : bound_of(value_of(*expression, scope));
  };
  SliceBounds bounds;
  bounds.start = bound(node.start);
  bounds.stop = bound(node.stop);
  bounds.step = bound(node.step);
  return slice_of(object, bounds, work_);
}

CallArguments Renderer::arguments_of(std::string function, const Arguments& arguments,
                                     const ScopePointer& scope) {
  CallArguments given{std::move(function), {}, {}};
  for (const auto& value : arguments.positional)
    given.positional.push_back(value_of(*value, scope));
  for (const auto& [name, value] : arguments.named)
    given.named.emplace_back(name, value_of(*value, scope));
  return given;
}

Value Renderer::value_of(const Call& node, const ScopePointer& scope) {
  if (const auto* const member = std::get_if<Attribute>(&node.callee->node))
    if (LoopState* const loop = loop_of(*member->object, *scope)) {
      const CallArguments given = arguments_of(member->name, node.arguments, scope);
      if (member->name == "cycle") return loop->cycle(given.positional);
      if (member->name == "changed") return Value::boolean(loop->changed(given.positional, work_));
      throw Failure("a method of 'loop' that this version knows", "'" + member->name + "'");
    }
  const Value callee = value_of(*node.callee, scope);
  if (!callee.is<CallablePointer>()) throw Failure("a function", callee.type_name());
  return call(callee, arguments_of(callee.as<CallablePointer>()->name(), node.arguments, scope));
}

Value Renderer::value_of(const Filter& node, const ScopePointer& scope) {
  const Value input = node.input == nullptr ? *block_text_ : value_of(*node.input, scope);
  return apply_filter(input, arguments_of(node.name, node.arguments, scope), work_);
}

Value Renderer::value_of(const Test& node, const ScopePointer& scope) {
  const Value input = value_of(*node.input, scope);
  return Value::boolean(passes_test(input, arguments_of(node.name, node.arguments, scope), work_));
}

}  // namespace accrue::data::jinja
