#include "data/chat/template/values/template_value.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/utf8.h"
#include "data/chat/template/values/value_order.h"
#include "data/json/large_integer.h"

namespace accrue::data::jinja {
namespace {

int checked_depth(int inside) {
  if (inside >= Work::deepest_value)
    throw Failure("values nested at most " + std::to_string(Work::deepest_value) + " deep",
                  "deeper ones");
  return inside + 1;
}

int depth_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return checked_depth(depth);
}

Value text_of_json(const std::string& text) {
  if (valid_utf8_prefix(text) != text.size())
    throw Failure("texts in UTF-8", "one with other bytes");
  return Value::text(text);
}

Value integer_of_json(const nlohmann::ordered_json& json) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > largest)
    return Value::large_integer(std::to_string(json.get<std::uint64_t>()));
  return Value::integer(json.get<std::int64_t>());
}

Value value_at(const nlohmann::ordered_json& json, int depth) {
  checked_depth(depth);
  if (json.is_null()) return Value::none();
  if (json.is_boolean()) return Value::boolean(json.get<bool>());
  if (json.is_number_float()) return Value::real(json.get<double>());
  if (json.is_number()) return integer_of_json(json);
  if (auto digits = digits_of(json)) return Value::large_integer(std::move(*digits));
  if (json.is_string()) return text_of_json(json.get_ref<const std::string&>());
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const auto& item : json) items.push_back(value_at(item, depth + 1));
    return Value::list(std::move(items));
  }
  if (!json.is_object()) throw Failure("values of JSON", json.type_name());
  Entries entries;
  entries.reserve(json.size());
  for (const auto& [key, item] : json.items())
    entries.emplace_back(text_of_json(key), value_at(item, depth + 1));
  return Value::mapping(std::move(entries));
}

/// The number of entries if there is no such key.
std::size_t place_of_key(const Entries& entries, const Value& key, Work& work) {
  if (!is_hashable(key)) throw Failure("a key that can be hashed", key.type_name());
  work.spend(entries.size());
  std::size_t place = 0;
  while (place < entries.size() && !are_equal(entries[place].first, key, work)) ++place;
  return place;
}

}  // namespace

Value Value::undefined(std::string name) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(name))});
}

Value Value::large_integer(std::string digits) {
  return Value(LargeInteger{std::make_shared<const std::string>(std::move(digits))});
}

Value Value::text(std::string value) {
  return Value(Kinds(std::make_shared<const std::string>(std::move(value))));
}

Value Value::list(std::vector<Value> items) {
  return make_sequence(Sequence::Kind::list, std::move(items));
}

Value Value::tuple(std::vector<Value> items) {
  return make_sequence(Sequence::Kind::tuple, std::move(items));
}

Value Value::iterator(std::vector<Value> items) {
  const int depth = depth_of(items);
  return Value(Kinds(std::make_shared<Iterator>(Iterator{std::move(items), 0, depth})));
}

Value Value::mapping(Entries entries) {
  int depth = 0;
  for (const auto& [key, item] : entries) depth = std::max({depth, key.depth(), item.depth()});
  return Value(
      Kinds(std::make_shared<const Mapping>(Mapping{std::move(entries), checked_depth(depth)})));
}

Value make_sequence(Sequence::Kind kind, std::vector<Value> items) {
  const int depth = depth_of(items);
  return Value(
      Value::Kinds(std::make_shared<const Sequence>(Sequence{kind, std::move(items), depth})));
}

int Value::depth() const {
  if (is<SequencePointer>()) return as<SequencePointer>()->depth;
  if (is<MappingPointer>()) return as<MappingPointer>()->depth;
  if (is<IteratorPointer>()) return as<IteratorPointer>()->depth;
  if (is<CallablePointer>()) {
    const auto* method = std::get_if<Callable::Method>(&as<CallablePointer>()->kind);
    return method == nullptr ? 0 : method->self.depth() + 1;
  }
  return 0;
}

std::string Value::type_name() const {
  if (is<Undefined>()) return as<Undefined>().name ? *as<Undefined>().name : "an undefined value";
  if (is<None>()) return "None";
  if (is<bool>()) return "a bool";
  if (is<std::int64_t>()) return "an int";
  if (is<LargeInteger>()) return "an int of more than 63 bits and a sign";
  if (is<double>()) return "a float";
  if (is<Text>()) return "a text";
  if (is<Markup>()) return "a text that went through 'safe'";
  if (is<MappingPointer>()) return "a dict";
  if (is<IteratorPointer>()) return "a generator";
  if (is<CallablePointer>()) return "the function '" + as<CallablePointer>()->name() + "'";
  if (is<Namespace*>()) return "a namespace";
  switch (as<SequencePointer>()->kind) {
    case Sequence::Kind::list:
      return "a list";
    case Sequence::Kind::tuple:
      return "a tuple";
    case Sequence::Kind::range:
      return "a range";
    case Sequence::Kind::dict_keys:
      return "the keys of a dict";
    case Sequence::Kind::dict_values:
      return "the values of a dict";
    case Sequence::Kind::dict_items:
      return "the items of a dict";
  }
  return "a value";
}

std::string Callable::name() const {
  if (const auto* global = std::get_if<Global>(&kind)) return global->name;
  if (const auto* method = std::get_if<Method>(&kind)) return method->name;
  return "a macro";
}

bool is_hashable(const Value& value) {
  if (value.is<MappingPointer>()) return false;
  if (!value.is<SequencePointer>()) return true;
  const Sequence& sequence = *value.as<SequencePointer>();
  if (sequence.kind == Sequence::Kind::range) return true;
  return sequence.kind == Sequence::Kind::tuple && std::ranges::all_of(sequence.items, is_hashable);
}

Value value_of(const nlohmann::ordered_json& json) { return value_at(json, 0); }

const Value* find_entry(const Mapping& mapping, std::string_view key) {
  for (const auto& [name, value] : mapping.entries)
    if (name.is_text() && name.as_text() == key) return &value;
  return nullptr;
}

const Value* find_entry(const Mapping& mapping, const Value& key, Work& work) {
  const std::size_t place = place_of_key(mapping.entries, key, work);
  return place == mapping.entries.size() ? nullptr : &mapping.entries[place].second;
}

void put_entry(Entries& entries, Value key, Value value, Work& work) {
  const std::size_t place = place_of_key(entries, key, work);
  if (place == entries.size())
    entries.emplace_back(std::move(key), std::move(value));
  else
    entries[place].second = std::move(value);
}

}  // namespace accrue::data::jinja
