#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/template/functions/call_arguments.h"
#include "data/chat/template/loop_state.h"
#include "data/chat/template/syntax/template_nodes.h"

namespace accrue::data::jinja {

/// The variables of a block. Missing ones are looked up in the blocks around it.
struct Scope {
  std::shared_ptr<Scope> around;
  std::vector<std::pair<std::string, Value>> variables;
  LoopState* loop = nullptr;  ///< of a `for`, while it runs

  void set(const std::string& name, Value value);
  const Value* find(const std::string& name, Work& work) const;
  LoopState* find_loop() const;
};
using ScopePointer = std::shared_ptr<Scope>;

/// Renders a template once. Throws a Failure if it cannot; `line()` is then its line.
class Renderer {
 public:
  /// A part of the text, in bytes, that was rendered in a {% generation %} block.
  struct Span {
    std::size_t begin = 0, end = 0;
  };
  struct Rendered {
    std::string text;
    std::vector<Span> generated;
    bool has_lost_generation = false;  ///< a block whose position in the text is not known
  };

  explicit Renderer(const std::tm& now) : now_(now) {}
  Rendered run(const ParsedTemplate& parsed, std::vector<std::pair<std::string, Value>> variables);
  int line() const { return line_; }

 private:
  enum class Flow { on, leave_loop, next_round };
  class Deeper;

  // Statements, in statement_renderer.cpp.
  Flow run_all(const Statements& statements, const ScopePointer& scope);
  Flow run_one(const Statement& statement, const ScopePointer& scope);
  Flow run(const Data& node, const ScopePointer& scope);
  Flow run(const Print& node, const ScopePointer& scope);
  Flow run(const If& node, const ScopePointer& scope);
  Flow run(const For& node, const ScopePointer& scope);
  Flow run(const Set& node, const ScopePointer& scope);
  Flow run(const Macro& node, const ScopePointer& scope);
  Flow run(const FilterBlock& node, const ScopePointer& scope);
  Flow run(const With& node, const ScopePointer& scope);
  Flow run(const Generation& node, const ScopePointer& scope);
  Flow run(const Break& node, const ScopePointer& scope);
  Flow run(const Continue& node, const ScopePointer& scope);
  void write(std::string_view text);
  /// The text that the statements write, in a new scope.
  std::string captured(const Statements& statements, const ScopePointer& around);
  void assign(const Target& target, Value value, Scope& scope);
  void assign_attribute(const Set& node, Value value, const Scope& scope);

  // Expressions, in expression_renderer.cpp.
  Value value_of(const Expression& expression, const ScopePointer& scope);
  Value value_of(const Literal& node, const ScopePointer& scope);
  Value value_of(const Name& node, const ScopePointer& scope);
  Value value_of(const ListOf& node, const ScopePointer& scope);
  Value value_of(const DictOf& node, const ScopePointer& scope);
  Value value_of(const Unary& node, const ScopePointer& scope);
  Value value_of(const Arithmetic& node, const ScopePointer& scope);
  Value value_of(const Logic& node, const ScopePointer& scope);
  Value value_of(const Comparison& node, const ScopePointer& scope);
  Value value_of(const Concatenation& node, const ScopePointer& scope);
  Value value_of(const Conditional& node, const ScopePointer& scope);
  Value value_of(const Attribute& node, const ScopePointer& scope);
  Value value_of(const Subscript& node, const ScopePointer& scope);
  Value value_of(const Slice& node, const ScopePointer& scope);
  Value value_of(const Call& node, const ScopePointer& scope);
  Value value_of(const Filter& node, const ScopePointer& scope);
  Value value_of(const Test& node, const ScopePointer& scope);
  CallArguments arguments_of(std::string function, const Arguments& arguments,
                             const ScopePointer& scope);
  /// The state of the loop that `loop` names, if the expression is that name.
  LoopState* loop_of(const Expression& expression, const Scope& scope);

  // Calls, in template_functions.cpp.
  Value call(const Value& callee, CallArguments arguments);
  Value call_global(CallArguments arguments);
  Value call_macro(const Callable::MacroOf& macro, CallArguments arguments);
  Value make_namespace(const CallArguments& arguments);
  Value time_as(CallArguments& arguments) const;

  std::tm now_;
  Work work_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::string text_;
  std::vector<Span> generated_;
  bool has_lost_generation_ = false;
  const Value* block_text_ = nullptr;  ///< the input of a block's filters
  int captures_ = 0, depth_ = 0, line_ = 1;
};

/// Whether the environment has a function of that name.
bool is_global(std::string_view name);

/// Counts how deep rendering is nested.
class Renderer::Deeper {
 public:
  explicit Deeper(Renderer& renderer) : renderer_(renderer) {
    constexpr int deepest = 400;
    if (renderer_.depth_ >= deepest)
      throw Failure("a template whose macros do not call one another without end",
                    "one deeper than " + std::to_string(deepest));
    ++renderer_.depth_;
  }
  ~Deeper() { --renderer_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Renderer& renderer_;
};

}  // namespace accrue::data::jinja
