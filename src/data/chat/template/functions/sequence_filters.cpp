#include <algorithm>

#include "data/chat/template/functions/template_filters.h"
#include "data/chat/template/functions/template_tests.h"
#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_order.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

/// The element at a path of keys and numbers separated by points, as filters state attributes.
/// `absent` replaces a missing element, at every step.
Value at_path(Value item, const Value& path, Work& work, const Value* absent = nullptr) {
  const auto step = [&](const Value& index) {
    item = element_of(item, index, work);
    if (absent != nullptr && item.is<Undefined>()) item = *absent;
  };
  if (path.is_integral()) {
    step(path);
    return item;
  }
  if (!path.is_text()) throw Failure("an attribute's name", path.type_name());
  for (const std::string& part : split_text(path.as_text(), ".", -1, false)) {
    std::int64_t index = 0;
    const bool is_index = are_digits(part) && part.size() < 18;
    for (const char digit : is_index ? part : "") index = index * 10 + (digit - '0');
    step(is_index ? Value::integer(index) : Value::text(part));
  }
  return item;
}

Value at_path(const Value& item, const Value* path, Work& work) {
  return path == nullptr || path->is<None>() ? item : at_path(item, *path, work);
}

/// The key by which values are sorted: texts in lower case, unless case counts.
Value sort_key(const Value& value, bool with_case) {
  return with_case || !value.is_text() ? value : Value::text(lower_text(value.as_text()));
}

Value length_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  if (input.is_text()) work.spend(input.as_text().size());
  return Value::integer(static_cast<std::int64_t>(length_of(input)));
}

Value list_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  return Value::list(items_of(input, work));
}

Value first_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  if (input.is<IteratorPointer>()) {
    Iterator& iterator = *input.as<IteratorPointer>();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return Value::undefined("the first item");
  }
  const std::vector<Value> items = items_of(input, work);
  return items.empty() ? Value::undefined("the first item") : items.front();
}

Value last_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  if (input.is<IteratorPointer>()) arguments.refuse("values that have a last one", "a generator");
  const std::vector<Value> items = items_of(input, work);
  return items.empty() ? Value::undefined("the last item") : items.back();
}

Value join_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"d", "attribute"});
  const Value* const given = arguments.find("d");
  const std::string between = given == nullptr ? "" : str_of(*given, work);
  std::string joined;
  bool is_first = true;
  for (const Value& item : items_of(input, work)) {
    if (!is_first) joined += between;
    joined += str_of(at_path(item, arguments.find("attribute"), work), work);
    work.spend(between.size());
    is_first = false;
  }
  return Value::text(std::move(joined));
}

Value items_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  if (input.is<Undefined>()) return Value::iterator({});
  if (!input.is<MappingPointer>()) arguments.refuse("a dict", input.type_name());
  std::vector<Value> items;
  for (const auto& [key, value] : input.as<MappingPointer>()->entries)
    items.push_back(Value::tuple({key, value}));
  work.spend(items.size() * sizeof(Value));
  return Value::iterator(std::move(items));
}

void sort_values(std::vector<Value>& values, std::vector<Value> keys, bool is_reversed,
                 Work& work) {
  std::vector<std::pair<Value, Value>> keyed;
  for (std::size_t i = 0; i < values.size(); ++i) keyed.emplace_back(std::move(keys[i]), values[i]);
  std::ranges::stable_sort(keyed, [&](const auto& left, const auto& right) {
    return is_reversed ? is_less(right.first, left.first, work)
                       : is_less(left.first, right.first, work);
  });
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::move(keyed[i].second);
}

/// A list of the item's values at each of the paths, which are separated by commas: equal ones need
/// no order.
Value sort_keys(const Value& item, const CallArguments& arguments, Work& work) {
  const bool with_case = arguments.truth("case_sensitive", false);
  const Value* const paths = arguments.find("attribute");
  if (paths == nullptr || !paths->is_text())
    return Value::list({sort_key(at_path(item, paths, work), with_case)});
  std::vector<Value> keys;
  for (std::string& path : split_text(paths->as_text(), ",", -1, false))
    keys.push_back(sort_key(at_path(item, Value::text(std::move(path)), work), with_case));
  return Value::list(std::move(keys));
}

Value sort_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"reverse", "case_sensitive", "attribute"});
  std::vector<Value> items = items_of(input, work);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(sort_keys(item, arguments, work));
  sort_values(items, std::move(keys), arguments.truth("reverse", false), work);
  return Value::list(std::move(items));
}

Value dictsort_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"case_sensitive", "by", "reverse"});
  if (!input.is<MappingPointer>()) arguments.refuse("a dict", input.type_name());
  const std::string by = arguments.text("by", "key");
  if (by != "key" && by != "value") arguments.refuse("by 'key' or 'value'", "'" + by + "'");
  std::vector<Value> items, keys;
  for (const auto& [key, value] : input.as<MappingPointer>()->entries) {
    items.push_back(Value::tuple({key, value}));
    keys.push_back(sort_key(by == "key" ? key : value, arguments.truth("case_sensitive", false)));
  }
  work.spend(items.size() * sizeof(Value));
  sort_values(items, std::move(keys), arguments.truth("reverse", false), work);
  return Value::list(std::move(items));
}

Value reverse_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  if (input.is_text()) {
    std::vector<std::string> characters = characters_of(input.as_text());
    work.spend(characters.size() * sizeof(std::string));
    std::string reversed;
    for (auto at = characters.rbegin(); at != characters.rend(); ++at) reversed += *at;
    return Value::text(std::move(reversed));
  }
  std::vector<Value> items = items_of(input, work);
  std::ranges::reverse(items);
  return input.is<IteratorPointer>() ? Value::list(std::move(items))
                                     : Value::iterator(std::move(items));
}

Value unique_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"case_sensitive", "attribute"});
  std::vector<Value> seen, kept;
  for (const Value& item : items_of(input, work)) {
    Value key = sort_key(at_path(item, arguments.find("attribute"), work),
                         arguments.truth("case_sensitive", false));
    if (!is_hashable(key)) arguments.refuse("values that can be hashed", key.type_name());
    const bool is_seen =
        std::ranges::any_of(seen, [&](const Value& other) { return are_equal(other, key, work); });
    if (is_seen) continue;
    seen.push_back(std::move(key));
    kept.push_back(item);
  }
  return Value::iterator(std::move(kept));
}

template <bool wants_larger>
Value extreme_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"case_sensitive", "attribute"});
  const std::vector<Value> items = items_of(input, work);
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : items) {
    Value key = sort_key(at_path(item, arguments.find("attribute"), work),
                         arguments.truth("case_sensitive", false));
    const bool is_better = best == nullptr || (wants_larger ? is_less(best_key, key, work)
                                                            : is_less(key, best_key, work));
    if (!is_better) continue;
    best = &item;
    best_key = std::move(key);
  }
  return best == nullptr ? Value::undefined("the extreme of nothing") : *best;
}

Value sum_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"attribute", "start"});
  const Value* const start = arguments.find("start");
  Value total = start == nullptr ? Value::integer(0) : *start;
  if (total.is_text()) arguments.refuse("a start other than a text", "a text");
  for (const Value& item : items_of(input, work))
    total = arithmetic("+", total, at_path(item, arguments.find("attribute"), work), work);
  return total;
}

Value mapped_by_attribute(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"attribute", "default"}, 1);
  const Value* absent = arguments.find("default");
  if (absent != nullptr && absent->is<None>()) absent = nullptr;
  std::vector<Value> results;
  for (const Value& item : items_of(input, work))
    results.push_back(at_path(item, arguments.get("attribute"), work, absent));
  return Value::iterator(std::move(results));
}

Value map_filter(const Value& input, CallArguments& arguments, Work& work) {
  if (!is_true(input)) return Value::iterator({});
  if (arguments.positional.empty()) return mapped_by_attribute(input, arguments, work);
  CallArguments inner = arguments;
  if (!inner.positional.front().is_text())
    arguments.refuse("a filter's name", inner.positional.front().type_name());
  inner.function = inner.positional.front().as_text();
  inner.positional.erase(inner.positional.begin());
  std::vector<Value> results;
  for (const Value& item : items_of(input, work))
    results.push_back(apply_filter(item, inner, work));
  return Value::iterator(std::move(results));
}

template <bool wants, bool of_attribute>
Value select_filter(const Value& input, CallArguments& arguments, Work& work) {
  CallArguments inner = arguments;
  std::optional<Value> path;
  if (of_attribute) {
    if (inner.positional.empty()) arguments.refuse("an attribute's name", "nothing");
    path = inner.positional.front();
    inner.positional.erase(inner.positional.begin());
  }
  const bool has_test = !inner.positional.empty();
  if (has_test) {
    if (!inner.positional.front().is_text())
      arguments.refuse("a test's name", inner.positional.front().type_name());
    inner.function = inner.positional.front().as_text();
    inner.positional.erase(inner.positional.begin());
  }
  std::vector<Value> kept;
  if (!is_true(input)) return Value::iterator({});
  for (const Value& item : items_of(input, work)) {
    const Value tested = at_path(item, path ? &*path : nullptr, work);
    const bool passes = has_test ? passes_test(tested, inner, work) : is_true(tested);
    if (passes == wants) kept.push_back(item);
  }
  return Value::iterator(std::move(kept));
}

}  // namespace

const FilterTable& sequence_filters() {
  static const FilterTable table = {
      {"count", length_filter},
      {"dictsort", dictsort_filter},
      {"first", first_filter},
      {"items", items_filter},
      {"join", join_filter},
      {"last", last_filter},
      {"length", length_filter},
      {"list", list_filter},
      {"map", map_filter},
      {"max", extreme_filter<true>},
      {"min", extreme_filter<false>},
      {"reject", select_filter<false, false>},
      {"rejectattr", select_filter<false, true>},
      {"reverse", reverse_filter},
      {"select", select_filter<true, false>},
      {"selectattr", select_filter<true, true>},
      {"sort", sort_filter},
      {"sum", sum_filter},
      {"unique", unique_filter},
  };
  return table;
}

}  // namespace accrue::data::jinja
