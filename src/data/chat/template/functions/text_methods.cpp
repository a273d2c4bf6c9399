#include "data/chat/template/functions/text_methods.h"

#include <algorithm>
#include <map>

#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"

namespace accrue::data::jinja {
namespace {

using Method = Value (*)(const std::string& text, CallArguments& arguments, Work& work);

constexpr auto not_found = std::string_view::npos;

Value texts(std::vector<std::string> parts, Work& work) {
  work.spend(parts.size() * sizeof(Value));
  std::vector<Value> items;
  for (std::string& part : parts) items.push_back(Value::text(std::move(part)));
  return Value::list(std::move(items));
}

/// The argument as a text; none if it was not given or is None.
std::optional<std::string> text_or_none(const CallArguments& arguments, std::string_view name) {
  const Value* const found = arguments.find(name);
  if (found == nullptr || found->is<None>()) return std::nullopt;
  return arguments.text(name);
}

void without_names(const CallArguments& arguments) {
  if (!arguments.named.empty())
    arguments.refuse("arguments without names", "'" + arguments.named.front().first + "'");
}

template <bool left, bool right>
Value strip_method(const std::string& text, CallArguments& arguments, Work&) {
  without_names(arguments);
  arguments.expect({"chars"});
  return Value::text(std::string(stripped(text, text_or_none(arguments, "chars"), left, right)));
}

template <bool from_end>
Value split_method(const std::string& text, CallArguments& arguments, Work& work) {
  arguments.expect({"sep", "maxsplit"});
  const std::optional<std::string> separator = text_or_none(arguments, "sep");
  if (separator && separator->empty()) arguments.refuse("a separator", "an empty text");
  return texts(split_text(text, separator, arguments.integer("maxsplit", -1), from_end), work);
}

Value split_lines_method(const std::string& text, CallArguments& arguments, Work& work) {
  arguments.expect({"keepends"});
  return texts(split_lines(text, arguments.truth("keepends", false)), work);
}

template <bool at_begin>
Value affix_method(const std::string& text, CallArguments& arguments, Work&) {
  without_names(arguments);
  arguments.expect({"affix"}, 1);
  const auto has = [&](const Value& affix) {
    if (!affix.is_text()) arguments.refuse("a text", affix.type_name());
    return at_begin ? text.starts_with(affix.as_text()) : text.ends_with(affix.as_text());
  };
  const Value& affix = arguments.get("affix");
  if (affix.is<SequencePointer>() && affix.as<SequencePointer>()->kind == Sequence::Kind::tuple)
    return Value::boolean(std::ranges::any_of(affix.as<SequencePointer>()->items, has));
  return Value::boolean(has(affix));
}

template <bool at_begin>
Value remove_method(const std::string& text, CallArguments& arguments, Work&) {
  without_names(arguments);
  arguments.expect({"affix"}, 1);
  const std::string affix = arguments.text("affix");
  if (at_begin ? !text.starts_with(affix) : !text.ends_with(affix)) return Value::text(text);
  return Value::text(at_begin ? text.substr(affix.size())
                              : text.substr(0, text.size() - affix.size()));
}

template <auto changed>
Value change_method(const std::string& text, CallArguments& arguments, Work&) {
  arguments.expect({});
  return Value::text(changed(text));
}

template <auto is_so>
Value kind_method(const std::string& text, CallArguments& arguments, Work&) {
  arguments.expect({});
  return Value::boolean(is_so(text));
}

Value replace_method(const std::string& text, CallArguments& arguments, Work& work) {
  without_names(arguments);
  arguments.expect({"old", "new", "count"}, 2);
  const std::string old = arguments.text("old");
  const std::string by = arguments.text("new");
  work.spend(count_text(text, old) * by.size());
  return Value::text(replaced(text, old, by, arguments.integer("count", -1)));
}

Value join_method(const std::string& text, CallArguments& arguments, Work& work) {
  without_names(arguments);
  arguments.expect({"iterable"}, 1);
  std::string joined;
  bool is_first = true;
  for (const Value& item : items_of(arguments.get("iterable"), work)) {
    if (!item.is_text()) arguments.refuse("texts", item.type_name());
    if (!is_first) joined += text;
    joined += item.as_text();
    work.spend(text.size() + item.as_text().size());
    is_first = false;
  }
  return Value::text(std::move(joined));
}

enum class Wanted { place, place_that_must_be, count };

template <Wanted wanted, bool from_end>
Value search_method(const std::string& text, CallArguments& arguments, Work&) {
  without_names(arguments);
  arguments.expect({"part"}, 1);
  const std::string part = arguments.text("part");
  if (wanted == Wanted::count)
    return Value::integer(static_cast<std::int64_t>(count_text(text, part)));
  const std::size_t found = from_end ? find_last_text(text, part) : find_text(text, part, 0);
  if (found == not_found && wanted == Wanted::place_that_must_be)
    arguments.refuse("a text that is in the other", "another");
  return Value::integer(found == not_found ? -1
                                           : static_cast<std::int64_t>(code_points(
                                                 std::string_view(text).substr(0, found))));
}

template <bool from_end>
Value partition_method(const std::string& text, CallArguments& arguments, Work&) {
  without_names(arguments);
  arguments.expect({"sep"}, 1);
  const std::string part = arguments.text("sep");
  if (part.empty()) arguments.refuse("a separator", "an empty text");
  const std::size_t found = from_end ? find_last_text(text, part) : find_text(text, part, 0);
  const Value nothing = Value::text("");
  if (found == not_found)
    return from_end ? Value::tuple({nothing, nothing, Value::text(text)})
                    : Value::tuple({Value::text(text), nothing, nothing});
  return Value::tuple({Value::text(text.substr(0, found)), Value::text(part),
                       Value::text(text.substr(found + part.size()))});
}

const std::map<std::string_view, Method>& methods() {
  static const std::map<std::string_view, Method> table = {
      {"capitalize", change_method<capitalized>},
      {"count", search_method<Wanted::count, false>},
      {"endswith", affix_method<false>},
      {"find", search_method<Wanted::place, false>},
      {"index", search_method<Wanted::place_that_must_be, false>},
      {"isalnum", kind_method<are_letters_or_digits>},
      {"isalpha", kind_method<are_letters>},
      {"isdigit", kind_method<are_digits>},
      {"islower", kind_method<is_lower_text>},
      {"isspace", kind_method<is_white_space>},
      {"isupper", kind_method<is_upper_text>},
      {"join", join_method},
      {"lower", change_method<lower_text>},
      {"lstrip", strip_method<true, false>},
      {"partition", partition_method<false>},
      {"removeprefix", remove_method<true>},
      {"removesuffix", remove_method<false>},
      {"replace", replace_method},
      {"rfind", search_method<Wanted::place, true>},
      {"rindex", search_method<Wanted::place_that_must_be, true>},
      {"rpartition", partition_method<true>},
      {"rsplit", split_method<true>},
      {"rstrip", strip_method<false, true>},
      {"split", split_method<false>},
      {"splitlines", split_lines_method},
      {"startswith", affix_method<true>},
      {"strip", strip_method<true, true>},
      {"title", change_method<title_text>},
      {"upper", change_method<upper_text>},
  };
  return table;
}

}  // namespace

Value call_of_text(const std::string& text, CallArguments& arguments, Work& work) {
  const auto found = methods().find(arguments.function);
  if (found == methods().end())
    throw Failure("a method of texts that this version knows", "'" + arguments.function + "'");
  constexpr std::size_t passes = 4;  // a method reads and writes its text a few times
  work.spend(passes * text.size() + 1);
  return found->second(text, arguments, work);
}

}  // namespace accrue::data::jinja
