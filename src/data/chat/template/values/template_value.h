#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/chat/template/values/template_work.h"

namespace accrue::data::jinja {

class Value;
using Entries = std::vector<std::pair<Value, Value>>;
struct Sequence;
struct Mapping;
struct Iterator;
struct Callable;
struct Namespace;

/// The value of a name or a key that does not exist. It prints as nothing, is false and empty, and
/// is refused wherever its value is needed.
struct Undefined {
  std::shared_ptr<const std::string> name;  ///< the missing name
};
struct None {};
/// A text that went through `safe`. It can be printed and joined; Python's type for it changes what
/// is added to it, so everything else is refused.
struct Markup {
  std::shared_ptr<const std::string> text;
};

using Text = std::shared_ptr<const std::string>;

/// An integer that does not fit into std::int64_t, in JSON of a message. It can be printed and
/// compared; operations that would make another number of it are refused.
struct LargeInteger {
  Text digits;
};
using SequencePointer = std::shared_ptr<const Sequence>;
using MappingPointer = std::shared_ptr<const Mapping>;
using IteratorPointer = std::shared_ptr<Iterator>;
using CallablePointer = std::shared_ptr<const Callable>;

/// A value of the template language: Python's values, as far as templates use them. Values are
/// immutable, as in jinja2's ImmutableSandboxedEnvironment; only a Namespace changes.
class Value {
 public:
  using Kinds =
      std::variant<Undefined, None, bool, std::int64_t, LargeInteger, double, Text, Markup,
                   SequencePointer, MappingPointer, IteratorPointer, CallablePointer, Namespace*>;

  Value() = default;
  explicit Value(Kinds kind) : kind_(std::move(kind)) {}
  static Value undefined(std::string name);
  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(Kinds(value)); }
  static Value integer(std::int64_t value) { return Value(Kinds(value)); }
  static Value large_integer(std::string digits);
  static Value real(double value) { return Value(Kinds(value)); }
  static Value text(std::string value);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  /// A generator: it can be iterated once.
  static Value iterator(std::vector<Value> items);
  static Value mapping(Entries entries);

  template <class Kind>
  bool is() const {
    return std::holds_alternative<Kind>(kind_);
  }
  template <class Kind>
  const Kind& as() const {
    return std::get<Kind>(kind_);
  }
  bool is_text() const { return is<Text>(); }
  const std::string& as_text() const { return *as<Text>(); }
  /// A number that Python treats as an int: True is 1.
  bool is_integral() const { return is<std::int64_t>() || is<bool>(); }
  bool is_number() const { return is_integral() || is<double>(); }
  std::int64_t as_integer() const { return is<bool>() ? as<bool>() : as<std::int64_t>(); }
  double as_real() const { return is<double>() ? as<double>() : static_cast<double>(as_integer()); }

  /// The depth of its nested values.
  int depth() const;
  /// Python's name of its type, as errors show it.
  std::string type_name() const;

 private:
  Kinds kind_;
};

struct Sequence {
  enum class Kind { list, tuple, range, dict_keys, dict_values, dict_items };
  Kind kind = Kind::list;
  std::vector<Value> items;
  int depth = 1;
  bool is_view() const { return kind >= Kind::dict_keys; }
};

struct Mapping {
  Entries entries;  ///< in insertion order
  int depth = 1;
};

/// A generator, which gives every item once.
struct Iterator {
  std::vector<Value> items;
  std::size_t next = 0;
  int depth = 1;
};

/// Exists as long as the rendering that made it.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Macro;
struct Scope;

struct Callable {
  /// A function of the environment.
  struct Global {
    std::string name;
  };
  /// A method, with the value that it belongs to.
  struct Method {
    Value self;
    std::string name;
  };
  struct MacroOf {
    const Macro* macro;
    std::weak_ptr<Scope> scope;  ///< where it was defined
  };
  std::variant<Global, Method, MacroOf> kind;
  std::string name() const;
};

/// A sequence of the kind. Throws a Failure if it is too deep.
Value make_sequence(Sequence::Kind kind, std::vector<Value> items);

/// A value from JSON. Throws a Failure for texts that are not UTF-8 and for values too deep.
Value value_of(const nlohmann::ordered_json& json);

/// Whether Python accepts the value as a key.
bool is_hashable(const Value& value);
/// The entry of a key. Null if there is none. Throws a Failure for keys that Python cannot hash.
const Value* find_entry(const Mapping& mapping, const Value& key, Work& work);
const Value* find_entry(const Mapping& mapping, std::string_view key);

/// Sets the value of a key; an existing key keeps its position.
void put_entry(Entries& entries, Value key, Value value, Work& work);

}  // namespace accrue::data::jinja
