#include <algorithm>

#include "data/chat/template/template_renderer.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, stored] : variables)
    if (known == name) {
      stored = std::move(value);
      return;
    }
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::find(const std::string& name, Work& work) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around.get()) {
    work.spend(scope->variables.size());
    for (const auto& [known, value] : scope->variables)
      if (known == name) return &value;
  }
  return nullptr;
}

LoopState* Scope::find_loop() const {
  const Scope* scope = this;
  while (scope != nullptr && scope->loop == nullptr) scope = scope->around.get();
  return scope == nullptr ? nullptr : scope->loop;
}

Renderer::Rendered Renderer::run(const ParsedTemplate& parsed,
                                 std::vector<std::pair<std::string, Value>> variables) {
  const auto given = std::make_shared<Scope>();
  given->variables = std::move(variables);
  const auto whole = std::make_shared<Scope>();
  whole->around = given;
  run_all(parsed.statements, whole);
  return {std::move(text_), std::move(generated_), has_lost_generation_};
}

Renderer::Flow Renderer::run_all(const Statements& statements, const ScopePointer& scope) {
  for (const auto& statement : statements)
    if (const Flow flow = run_one(*statement, scope); flow != Flow::on) return flow;
  return Flow::on;
}

Renderer::Flow Renderer::run_one(const Statement& statement, const ScopePointer& scope) {
  const Deeper deeper(*this);
  work_.spend(Work::per_node);
  line_ = statement.line;
  return std::visit([&](const auto& node) { return run(node, scope); }, statement.node);
}

void Renderer::write(std::string_view text) {
  work_.spend(text.size());
  text_ += text;
}

Renderer::Flow Renderer::run(const Data& node, const ScopePointer&) {
  write(node.text);
  return Flow::on;
}

Renderer::Flow Renderer::run(const Print& node, const ScopePointer& scope) {
  write(str_of(value_of(*node.value, scope), work_));
  return Flow::on;
}

Renderer::Flow Renderer::run(const If& node, const ScopePointer& scope) {
  for (const auto& [condition, body] : node.branches)
    if (is_true(value_of(*condition, scope))) return run_all(body, scope);
  return run_all(node.otherwise, scope);
}

Renderer::Flow Renderer::run(const For& node, const ScopePointer& scope) {
  LoopState::Condition condition;
  if (node.condition != nullptr)
    condition = [&](const Value& item) {
      const auto tried = std::make_shared<Scope>();
      tried->around = scope;
      assign(node.target, item, *tried);
      return is_true(value_of(*node.condition, tried));
    };
  LoopState loop(items_of(value_of(*node.items, scope), work_), std::move(condition));
  bool has_whole_round = false;  // jinja2 treats a loop of broken rounds as empty
  while (loop.advance()) {
    const auto round = std::make_shared<Scope>();
    round->around = scope;
    round->loop = &loop;
    assign(node.target, loop.current(), *round);
    const Flow flow = run_all(node.body, round);
    round->loop = nullptr;  // a macro's scope may outlive the loop
    if (flow == Flow::leave_loop) break;
    has_whole_round = has_whole_round || flow == Flow::on;
  }
  if (has_whole_round) return Flow::on;
  const auto otherwise = std::make_shared<Scope>();
  otherwise->around = scope;
  return run_all(node.otherwise, otherwise);
}

Renderer::Flow Renderer::run(const Set& node, const ScopePointer& scope) {
  Value value;
  if (node.body) {
    value = Value::text(captured(*node.body, scope));
    if (node.value != nullptr) {
      const Value* const before = std::exchange(block_text_, &value);
      Value changed = value_of(*node.value, scope);
      block_text_ = before;
      value = std::move(changed);
    }
  } else {
    value = value_of(*node.value, scope);
  }
  if (node.attribute.empty())
    assign(node.target, std::move(value), *scope);
  else
    assign_attribute(node, std::move(value), *scope);
  return Flow::on;
}

Renderer::Flow Renderer::run(const Macro& node, const ScopePointer& scope) {
  scope->set(node.name, Value(Value::Kinds(std::make_shared<const Callable>(
                            Callable{Callable::MacroOf{&node, scope}}))));
  return Flow::on;
}

Renderer::Flow Renderer::run(const FilterBlock& node, const ScopePointer& scope) {
  const Value text = Value::text(captured(node.body, scope));
  const Value* const before = std::exchange(block_text_, &text);
  const Value changed = value_of(*node.filters, scope);
  block_text_ = before;
  write(str_of(changed, work_));
  return Flow::on;
}

Renderer::Flow Renderer::run(const With& node, const ScopePointer& scope) {
  const auto inside = std::make_shared<Scope>();
  inside->around = scope;
  for (const auto& [target, value] : node.variables)
    assign(target, value_of(*value, scope), *inside);
  return run_all(node.body, inside);
}

Renderer::Flow Renderer::run(const Generation& node, const ScopePointer& scope) {
  const auto inside = std::make_shared<Scope>();
  inside->around = scope;
  const std::size_t begin = text_.size(), known = generated_.size();
  run_all(node.body, inside);
  if (captures_ > 0) {
    has_lost_generation_ = true;
  } else {
    generated_.resize(known);  // blocks in this one are part of it
    generated_.push_back({begin, text_.size()});
  }
  return Flow::on;
}

Renderer::Flow Renderer::run(const Break&, const ScopePointer&) { return Flow::leave_loop; }
Renderer::Flow Renderer::run(const Continue&, const ScopePointer&) { return Flow::next_round; }

std::string Renderer::captured(const Statements& statements, const ScopePointer& around) {
  const auto inside = std::make_shared<Scope>();
  inside->around = around;
  std::string outer = std::exchange(text_, "");
  ++captures_;
  run_all(statements, inside);
  --captures_;
  return std::exchange(text_, std::move(outer));
}

void Renderer::assign(const Target& target, Value value, Scope& scope) {
  work_.spend(scope.variables.size());
  if (target.parts.empty()) return scope.set(target.name, std::move(value));
  std::vector<Value> items = items_of(value, work_);
  if (items.size() != target.parts.size())
    throw Failure(std::to_string(target.parts.size()) + " values for as many names",
                  std::to_string(items.size()));
  for (std::size_t i = 0; i < items.size(); ++i)
    assign(target.parts[i], std::move(items[i]), scope);
}

void Renderer::assign_attribute(const Set& node, Value value, const Scope& scope) {
  const Value* const owner = scope.find(node.target.name, work_);
  if (owner == nullptr || !owner->is<Namespace*>())
    throw Failure("a namespace to set '" + node.attribute + "' of",
                  owner == nullptr ? "'" + node.target.name + "'" : owner->type_name());
  if (node.attribute.starts_with('_'))
    throw Failure("an attribute that templates may set", "'" + node.attribute + "'");
  auto& attributes = owner->as<Namespace*>()->attributes;
  work_.spend(attributes.size());
  const auto known = std::ranges::find_if(
      attributes, [&](const auto& attribute) { return attribute.first == node.attribute; });
  if (known == attributes.end())
    attributes.emplace_back(node.attribute, std::move(value));
  else
    known->second = std::move(value);
}

}  // namespace accrue::data::jinja
