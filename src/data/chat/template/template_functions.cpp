#include <algorithm>
#include <array>

#include "data/chat/template/functions/template_methods.h"
#include "data/chat/template/template_renderer.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

/// The environment's functions. The last three belong to jinja2, and are refused when called.
constexpr std::array<std::string_view, 8> globals = {
    "range", "dict", "namespace", "raise_exception", "strftime_now", "lipsum", "cycler", "joiner"};

Value range_of(CallArguments& arguments, Work& work) {
  if (!arguments.named.empty()) arguments.refuse("arguments without names", "one with a name");
  const std::size_t count = arguments.positional.size();
  arguments.expect({"first", "second", "step"}, 1);
  const std::int64_t start = count == 1 ? 0 : arguments.integer("first", 0);
  const std::int64_t stop = arguments.integer(count == 1 ? "first" : "second", 0);
  const std::int64_t step = arguments.integer("step", 1);
  constexpr std::size_t longest = 100000;  // the sandbox's limit
  if (step == 0) arguments.refuse("a step other than 0", "0");
  std::vector<Value> items;
  for (std::int64_t at = start; step < 0 ? at > stop : at < stop;) {
    if (items.size() == longest)
      arguments.refuse("at most " + std::to_string(longest) + " numbers", "more");
    items.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  work.spend(items.size() * sizeof(Value));
  return make_sequence(Sequence::Kind::range, std::move(items));
}

/// The arguments of dict(...): a dict or pairs, and named arguments.
Entries entries_of(const CallArguments& arguments, Work& work) {
  if (arguments.positional.size() > 1) arguments.refuse("one argument without a name", "several");
  Entries entries;
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional.front();
    if (given.is<MappingPointer>()) {
      entries = given.as<MappingPointer>()->entries;
    } else {
      if (given.is<Namespace*>()) arguments.refuse("a dict or pairs", given.type_name());
      for (const Value& pair : items_of(given, work)) {
        std::vector<Value> two = items_of(pair, work);
        if (two.size() != 2) arguments.refuse("pairs", std::to_string(two.size()) + " values");
        put_entry(entries, std::move(two[0]), std::move(two[1]), work);
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    put_entry(entries, Value::text(name), value, work);
  work.spend(entries.size() * sizeof(Entries::value_type));
  return entries;
}

}  // namespace

bool is_global(std::string_view name) { return std::ranges::find(globals, name) != globals.end(); }

Value Renderer::call(const Value& callee, CallArguments arguments) {
  const Callable& callable = *callee.as<CallablePointer>();
  if (std::holds_alternative<Callable::Global>(callable.kind))
    return call_global(std::move(arguments));
  if (const auto* const method = std::get_if<Callable::Method>(&callable.kind))
    return call_method(method->self, std::move(arguments), work_);
  return call_macro(std::get<Callable::MacroOf>(callable.kind), std::move(arguments));
}

Value Renderer::call_global(CallArguments arguments) {
  const std::string& name = arguments.function;
  if (name == "range") return range_of(arguments, work_);
  if (name == "dict") return Value::mapping(entries_of(arguments, work_));
  if (name == "namespace") return make_namespace(arguments);
  if (name == "strftime_now") return time_as(arguments);
  if (name != "raise_exception")
    throw Failure("a function that this version knows", "'" + name + "'");
  arguments.expect({"message"}, 1);
  throw Failure("messages that the template takes",
                "'" + str_of(arguments.get("message"), work_) + "', which the template raises");
}

Value Renderer::make_namespace(const CallArguments& arguments) {
  auto made = std::make_unique<Namespace>();
  for (auto& [key, value] : entries_of(arguments, work_)) {
    if (!key.is_text() || key.as_text().starts_with('_'))
      arguments.refuse("names that templates may set", str_of(key, work_));
    made->attributes.emplace_back(key.as_text(), std::move(value));
  }
  namespaces_.push_back(std::move(made));
  return Value(Value::Kinds(namespaces_.back().get()));
}

Value Renderer::time_as(CallArguments& arguments) const {
  arguments.expect({"format"}, 1);
  const std::string format = arguments.text("format");
  constexpr std::size_t longest = 1000;
  if (format.size() > longest) arguments.refuse("a format", "one of more than 1000 characters");
  // strftime returns 0 for text that does not fit and for empty text: a prefix distinguishes them.
  std::vector<char> text(64 * (longest + 2));
  const std::size_t size = std::strftime(text.data(), text.size(), ("." + format).c_str(), &now_);
  if (size == 0) arguments.refuse("a format", "'" + format + "'");
  return Value::text(std::string(text.data() + 1, size - 1));
}

Value Renderer::call_macro(const Callable::MacroOf& macro, CallArguments arguments) {
  const Deeper deeper(*this);
  const ScopePointer around = macro.scope.lock();
  if (around == nullptr)
    throw Failure("a macro of a block that has not ended", "'" + macro.macro->name + "'");
  const auto& parameters = macro.macro->parameters;
  std::vector<std::string_view> names;
  for (const auto& [name, preset] : parameters) names.push_back(name);
  arguments.function = macro.macro->name;
  arguments.expect(names);
  const auto inside = std::make_shared<Scope>();
  inside->around = around;
  for (const auto& [name, preset] : parameters) {
    if (const Value* const given = arguments.find(name))
      inside->set(name, *given);
    else
      inside->set(
          name, preset == nullptr ? Value::undefined("'" + name + "'") : value_of(*preset, inside));
  }
  return Value::text(captured(macro.macro->body, inside));
}

}  // namespace accrue::data::jinja
