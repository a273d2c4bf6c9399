#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/chat/template/values/template_value.h"

/// A parsed template. It is never changed afterwards.
namespace accrue::data::jinja {

struct Expression;
using ExpressionPointer = std::unique_ptr<const Expression>;
using Expressions = std::vector<ExpressionPointer>;

struct Arguments {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListOf {
  Expressions items;
  bool is_tuple = false;
};
struct DictOf {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries;
};
struct Unary {
  enum class Op { no, minus, plus };
  Op op;
  ExpressionPointer operand;
};
struct Arithmetic {
  std::string op;
  ExpressionPointer left, right;
};
struct Logic {
  bool is_and;
  ExpressionPointer left, right;
};
struct Comparison {
  ExpressionPointer first;
  std::vector<std::pair<std::string, ExpressionPointer>> rest;  ///< == != < <= > >= in, "not in"
};
struct Concatenation {
  Expressions parts;
};
struct Conditional {
  ExpressionPointer condition, yes, no;  ///< `no` may be null
};
struct Attribute {
  ExpressionPointer object;
  std::string name;
};
struct Subscript {
  ExpressionPointer object, index;
};
struct Slice {
  ExpressionPointer object, start, stop, step;  ///< each but the object may be null
};
struct Call {
  ExpressionPointer callee;
  Arguments arguments;
};
struct Filter {
  ExpressionPointer input;  ///< null: a block's content
  std::string name;
  Arguments arguments;
};
struct Test {
  ExpressionPointer input;
  std::string name;
  Arguments arguments;
};

struct Expression {
  std::variant<Literal, Name, ListOf, DictOf, Unary, Arithmetic, Logic, Comparison, Concatenation,
               Conditional, Attribute, Subscript, Slice, Call, Filter, Test>
      node;
  int line = 1;
  int depth = 1;
};

struct Statement;
using Statements = std::vector<std::unique_ptr<const Statement>>;

struct Data {
  std::string text;
};
struct Print {
  ExpressionPointer value;
};
struct If {
  std::vector<std::pair<ExpressionPointer, Statements>> branches;
  Statements otherwise;
};
/// The target of an assignment: names, or names in tuples.
struct Target {
  std::string name;
  std::vector<Target> parts;  ///< of a tuple; `name` is empty then
};
struct For {
  Target target;
  ExpressionPointer items, condition;  ///< the condition may be null
  Statements body, otherwise;
};
struct Set {
  Target target;
  std::string attribute;    ///< of the namespace `target.name`, if it is not empty
  ExpressionPointer value;  ///< for a block its filters, or null
  std::optional<Statements> body;
};
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;  ///< null: no default
  Statements body;
};
struct FilterBlock {
  ExpressionPointer filters;
  Statements body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPointer>> variables;
  Statements body;
};
/// {% generation %}: the model's words.
struct Generation {
  Statements body;
};
struct Break {};
struct Continue {};

struct Statement {
  std::variant<Data, Print, If, For, Set, Macro, FilterBlock, With, Generation, Break, Continue>
      node;
  int line = 1;
};

struct ParsedTemplate {
  Statements statements;
  bool has_generation = false;
};

}  // namespace accrue::data::jinja
