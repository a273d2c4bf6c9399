#include "data/chat/template/functions/template_methods.h"

#include <algorithm>
#include <array>

#include "data/chat/template/functions/text_methods.h"
#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_order.h"

namespace accrue::data::jinja {
namespace {

using Names = std::vector<std::string_view>;

const Names& methods_of(const Value& object) {
  static const Names of_text = {
      "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
      "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
      "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
      "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
      "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
      "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
      "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
      "swapcase",     "title",       "translate", "upper",      "zfill"};
  static const Names of_dict = {"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                "pop",   "popitem", "setdefault", "update", "values"};
  static const Names of_list = {"append", "clear",  "copy", "count",   "extend", "index",
                                "insert", "remove", "pop",  "reverse", "sort"};
  static const Names of_tuple = {"count", "index"};
  static const Names of_range = {"count", "index", "start", "step", "stop"};
  static const Names of_view = {"isdisjoint", "mapping"};
  static const Names of_int = {
      "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
      "from_bytes",       "imag",      "numerator",  "real",      "to_bytes"};
  static const Names of_float = {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag",
                                 "is_integer",       "real"};
  static const Names of_generator = {"close", "send", "throw"};
  static const Names of_nothing;
  if (object.is_text()) return of_text;
  if (object.is<MappingPointer>()) return of_dict;
  if (object.is_integral() || object.is<LargeInteger>()) return of_int;
  if (object.is<double>()) return of_float;
  if (object.is<IteratorPointer>()) return of_generator;
  if (!object.is<SequencePointer>()) return of_nothing;
  const Sequence& sequence = *object.as<SequencePointer>();
  if (sequence.is_view()) return of_view;
  if (sequence.kind == Sequence::Kind::range) return of_range;
  return sequence.kind == Sequence::Kind::list ? of_list : of_tuple;
}

bool changes_its_object(const std::string& name) {
  static const Names changing = {"append", "clear",   "extend",     "insert", "pop",   "popitem",
                                 "remove", "reverse", "setdefault", "sort",   "update"};
  return std::ranges::find(changing, name) != changing.end();
}

Value view_of(const Mapping& mapping, Sequence::Kind kind) {
  std::vector<Value> items;
  for (const auto& [key, value] : mapping.entries) {
    if (kind == Sequence::Kind::dict_keys) items.push_back(key);
    if (kind == Sequence::Kind::dict_values) items.push_back(value);
    if (kind == Sequence::Kind::dict_items) items.push_back(Value::tuple({key, value}));
  }
  return make_sequence(kind, std::move(items));
}

Value call_of_dict(const Value& object, CallArguments& arguments, Work& work) {
  const Mapping& mapping = *object.as<MappingPointer>();
  const std::string& name = arguments.function;
  work.spend(mapping.entries.size() * sizeof(Value));
  if (name == "get") {
    if (!arguments.named.empty()) arguments.refuse("arguments without names", "one with a name");
    arguments.expect({"key", "default"}, 1);
    const Value* const found = find_entry(mapping, arguments.get("key"), work);
    if (found != nullptr) return *found;
    const Value* const absent = arguments.find("default");
    return absent == nullptr ? Value::none() : *absent;
  }
  arguments.expect({});
  if (name == "items") return view_of(mapping, Sequence::Kind::dict_items);
  if (name == "keys") return view_of(mapping, Sequence::Kind::dict_keys);
  if (name == "values") return view_of(mapping, Sequence::Kind::dict_values);
  if (name == "copy") return Value::mapping(mapping.entries);
  throw Failure("a method of dicts that this version knows", "'" + name + "'");
}

Value call_of_sequence(const Value& object, CallArguments& arguments, Work& work) {
  const Sequence& sequence = *object.as<SequencePointer>();
  const std::string& name = arguments.function;
  if (name == "copy") {
    arguments.expect({});
    return Value::list(sequence.items);
  }
  if (name != "count" && name != "index")
    throw Failure("a method of lists that this version knows", "'" + name + "'");
  arguments.expect({"value"}, 1);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (!are_equal(sequence.items[i], arguments.get("value"), work)) continue;
    if (name == "index") return Value::integer(static_cast<std::int64_t>(i));
    ++count;
  }
  if (name == "index") arguments.refuse("a value that is in the list", "another");
  return Value::integer(count);
}

}  // namespace

bool has_method(const Value& object, const std::string& name) {
  return std::ranges::find(methods_of(object), name) != methods_of(object).end();
}

Value call_method(const Value& object, CallArguments arguments, Work& work) {
  const std::string& name = arguments.function;
  if (object.is_text()) return call_of_text(object.as_text(), arguments, work);
  if (changes_its_object(name))
    throw Failure("a template that changes no values, as the sandbox wants it", "'" + name + "'");
  if (object.is<MappingPointer>()) return call_of_dict(object, arguments, work);
  if (object.is<SequencePointer>() && !object.as<SequencePointer>()->is_view())
    return call_of_sequence(object, arguments, work);
  throw Failure("a method that this version knows", "'" + name + "' of " + object.type_name());
}

}  // namespace accrue::data::jinja
