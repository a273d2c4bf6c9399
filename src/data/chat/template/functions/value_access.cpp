#include <algorithm>
#include <array>

#include "core/utf8.h"
#include "data/chat/template/functions/template_methods.h"
#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"

namespace accrue::data::jinja {
namespace {

/// The position for a Python index; none if it is out of range.
std::optional<std::size_t> place_of(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < -length || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + length : index);
}

std::optional<Value> character_at(const std::string& text, std::int64_t index, Work& work) {
  work.spend(text.size());
  const auto place = place_of(index, code_points(text));
  if (!place) return std::nullopt;
  const std::size_t at = byte_of(text, *place);
  return Value::text(text.substr(at, utf8_length(text[at])));
}

bool has_places(const Value& value) {
  return value.is<SequencePointer>() && !value.as<SequencePointer>()->is_view();
}

std::optional<Value> subscripted(const Value& object, const Value& index, Work& work) {
  if (object.is<MappingPointer>()) {
    if (!is_hashable(index)) return std::nullopt;
    const Value* const found = find_entry(*object.as<MappingPointer>(), index, work);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!index.is_integral()) return std::nullopt;
  if (object.is_text()) return character_at(object.as_text(), index.as_integer(), work);
  if (!has_places(object)) return std::nullopt;
  const std::vector<Value>& items = object.as<SequencePointer>()->items;
  const auto place = place_of(index.as_integer(), items.size());
  return place ? std::optional(items[*place]) : std::nullopt;
}

std::optional<Value> attribute(const Value& object, const std::string& name, Work& work) {
  if (object.is<Namespace*>()) {
    work.spend(object.as<Namespace*>()->attributes.size());
    for (const auto& [key, value] : object.as<Namespace*>()->attributes)
      if (key == name) return value;
    return std::nullopt;
  }
  if (name.starts_with("__") && name.ends_with("__"))
    throw Failure("an attribute that templates may use", "'" + name + "'");
  if (!has_method(object, name)) return std::nullopt;
  return Value(
      Value::Kinds(std::make_shared<const Callable>(Callable{Callable::Method{object, name}})));
}

void refuse_undefined(const Value& object, const std::string& name) {
  if (object.is<Undefined>())
    throw Failure("a value with '" + name + "'", object.type_name() + ", which is undefined");
  const auto* const function =
      object.is<CallablePointer>() ? &object.as<CallablePointer>()->kind : nullptr;
  const bool may_have = function != nullptr && !std::holds_alternative<Callable::Method>(*function);
  const bool is_of_generator = object.is<IteratorPointer>() && name.starts_with("gi_");
  if (object.is<Markup>() || may_have || is_of_generator)
    throw Failure("a value with '" + name + "'", object.type_name());
}

std::string shown_index(const Value& index) {
  if (index.is_text()) return index.as_text();
  return index.is_integral() ? std::to_string(index.as_integer()) : index.type_name();
}

/// The positions in a slice: those of Python's slice.indices().
std::vector<std::size_t> places_of(const SliceBounds& bounds, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  const std::int64_t step = bounds.step.value_or(1);
  if (step == 0) throw Failure("a step of a slice other than 0", "0");
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? length - 1 : length;
  const auto placed = [&](std::optional<std::int64_t> bound, std::int64_t absent) {
    if (!bound) return absent;
    const std::int64_t counted = *bound < 0 ? std::max(*bound, -length - 1) + length : *bound;
    return std::clamp(counted, lowest, highest);
  };
  const std::int64_t start = placed(bounds.start, step < 0 ? highest : lowest);
  const std::int64_t stop = placed(bounds.stop, step < 0 ? lowest : highest);
  std::vector<std::size_t> places;
  for (std::int64_t at = start; step < 0 ? at > stop : at < stop;) {
    places.push_back(static_cast<std::size_t>(at));
    if (step > length || step < -length) break;
    at += step;
  }
  return places;
}

}  // namespace

std::size_t length_of(const Value& value) {
  if (value.is<Undefined>()) return 0;
  if (value.is_text()) return code_points(value.as_text());
  if (value.is<Markup>()) return code_points(*value.as<Markup>().text);
  if (value.is<SequencePointer>()) return value.as<SequencePointer>()->items.size();
  if (value.is<MappingPointer>()) return value.as<MappingPointer>()->entries.size();
  throw Failure("a value that has a length", value.type_name());
}

bool is_iterable(const Value& value) {
  return value.is<Undefined>() || value.is_text() || value.is<Markup>() ||
         value.is<SequencePointer>() || value.is<MappingPointer>() || value.is<IteratorPointer>();
}

std::vector<Value> items_of(const Value& value, Work& work) {
  std::vector<Value> items;
  if (value.is<SequencePointer>()) {
    items = value.as<SequencePointer>()->items;
  } else if (value.is<MappingPointer>()) {
    for (const auto& [key, item] : value.as<MappingPointer>()->entries) items.push_back(key);
  } else if (value.is_text()) {
    for (std::string& character : characters_of(value.as_text()))
      items.push_back(Value::text(std::move(character)));
  } else if (value.is<IteratorPointer>()) {
    Iterator& iterator = *value.as<IteratorPointer>();
    items.assign(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                 iterator.items.end());
    iterator.next = iterator.items.size();
  } else if (!value.is<Undefined>()) {
    throw Failure("a value to walk over", value.type_name());
  }
  work.spend(items.size() * sizeof(Value));
  return items;
}

Value element_of(const Value& object, const Value& index, Work& work) {
  refuse_undefined(object, shown_index(index));
  if (auto found = subscripted(object, index, work)) return *found;
  if (index.is_text())
    if (auto found = attribute(object, index.as_text(), work)) return *found;
  return Value::undefined(shown_index(index));
}

Value attribute_of(const Value& object, const std::string& name, Work& work) {
  refuse_undefined(object, name);
  if (auto found = attribute(object, name, work)) return *found;
  if (auto found = subscripted(object, Value::text(name), work)) return *found;
  return Value::undefined(name);
}

Value slice_of(const Value& object, const SliceBounds& bounds, Work& work) {
  refuse_undefined(object, "[:]");
  if (object.is_text()) {
    const std::vector<std::string> characters = characters_of(object.as_text());
    work.spend(characters.size() * sizeof(std::string));
    std::string text;
    for (const std::size_t place : places_of(bounds, characters.size())) text += characters[place];
    return Value::text(std::move(text));
  }
  if (!has_places(object)) throw Failure("a text or a list to cut", object.type_name());
  const Sequence& sequence = *object.as<SequencePointer>();
  work.spend(sequence.items.size() * sizeof(Value));
  std::vector<Value> items;
  for (const std::size_t place : places_of(bounds, sequence.items.size()))
    items.push_back(sequence.items[place]);
  return make_sequence(sequence.kind, std::move(items));
}

}  // namespace accrue::data::jinja
