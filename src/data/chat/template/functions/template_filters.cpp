#include "data/chat/template/functions/template_filters.h"

#include <charconv>
#include <cmath>

#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

Value default_filter(const Value& input, CallArguments& arguments, Work&) {
  arguments.expect({"default_value", "boolean"});
  const bool is_absent =
      input.is<Undefined>() || (arguments.truth("boolean", false) && !is_true(input));
  if (!is_absent) return input;
  const Value* const given = arguments.find("default_value");
  return given == nullptr ? Value::text("") : *given;
}

Value string_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  return input.is<Markup>() ? input : Value::text(str_of(input, work));
}

Value safe_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  return Value(Markup{std::make_shared<const std::string>(str_of(input, work))});
}

/// The text that Python's int() and float() read: a number with white space around it, and single
/// underscores between its digits.
std::optional<std::string> numeral_of(const std::string& text) {
  std::string numeral(stripped(text, std::nullopt, true, true));
  if (numeral.starts_with('+')) numeral.erase(0, 1);
  for (const std::string& character : characters_of(numeral))
    if (character.size() > 1 && are_digits(character))
      throw Failure("numbers of ASCII digits", "'" + text + "'");
  for (std::size_t at = 0; at < numeral.size(); ++at) {
    if (numeral[at] != '_') continue;
    const auto is_digit_at = [&](std::size_t place) {
      return place < numeral.size() && numeral[place] >= '0' && numeral[place] <= '9';
    };
    if (at == 0 || !is_digit_at(at - 1) || !is_digit_at(at + 1)) return std::nullopt;
  }
  std::erase(numeral, '_');
  if (numeral.starts_with("+") || numeral.starts_with("-+")) return std::nullopt;
  return numeral;
}

std::optional<double> real_of_text(const std::string& text) {
  const std::optional<std::string> numeral = numeral_of(text);
  if (!numeral || numeral->empty()) return std::nullopt;
  double value = 0;
  const char* const end = numeral->data() + numeral->size();
  const auto read = std::from_chars(numeral->data(), end, value);
  if (read.ec == std::errc::result_out_of_range)
    throw Failure("numbers that a float has room for", "'" + text + "'");
  const bool is_whole = read.ec == std::errc() && read.ptr == end;
  const bool has_payload = numeral->find('(') != std::string::npos;  // nan(...), only in C
  return is_whole && !has_payload ? std::optional(value) : std::nullopt;
}

std::optional<Value> integer_of_real(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (!(std::abs(value) < 9.2e18))
    throw Failure("integers of at most 63 bits and a sign", "a larger one");
  return Value::integer(static_cast<std::int64_t>(value));
}

std::optional<Value> integer_of_text(const std::string& text) {
  const std::optional<std::string> numeral = numeral_of(text);
  if (!numeral || numeral->empty()) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = numeral->data() + numeral->size();
  const auto read = std::from_chars(numeral->data(), end, value);
  if (read.ec == std::errc::result_out_of_range && read.ptr == end)
    throw Failure("integers of at most 63 bits and a sign", "'" + text + "'");
  if (read.ec == std::errc() && read.ptr == end) return Value::integer(value);
  const std::optional<double> real = real_of_text(text);
  return real ? integer_of_real(*real) : std::nullopt;
}

Value int_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"default", "base"});
  if (arguments.integer("base", 10) != 10) arguments.refuse("base 10", "another");
  std::optional<Value> result;
  if (input.is<Undefined>()) arguments.refuse("a value", input.type_name());
  if (input.is_integral()) result = Value::integer(input.as_integer());
  if (input.is<LargeInteger>()) result = input;
  if (input.is<double>()) result = integer_of_real(input.as<double>());
  if (input.is_text()) {
    work.spend(input.as_text().size());
    result = integer_of_text(input.as_text());
  }
  const Value* const absent = arguments.find("default");
  return result ? *result : absent != nullptr ? *absent : Value::integer(0);
}

Value float_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"default"});
  if (input.is<Undefined>()) arguments.refuse("a value", input.type_name());
  std::optional<double> result;
  if (input.is_number()) result = input.as_real();
  if (input.is<LargeInteger>()) result = real_of_text(*input.as<LargeInteger>().digits);
  if (input.is_text()) {
    work.spend(input.as_text().size());
    result = real_of_text(input.as_text());
  }
  if (result) return Value::real(*result);
  const Value* const absent = arguments.find("default");
  return absent != nullptr ? *absent : Value::real(0);
}

Value abs_filter(const Value& input, CallArguments& arguments, Work&) {
  arguments.expect({});
  if (input.is<double>()) return Value::real(std::abs(input.as<double>()));
  if (!input.is_integral()) arguments.refuse("a number", input.type_name());
  return input.as_integer() < 0 ? negated(input) : Value::integer(input.as_integer());
}

std::optional<std::string> indent_of(const CallArguments& arguments) {
  const Value* const given = arguments.find("indent");
  if (given == nullptr || given->is<None>()) return std::nullopt;
  if (given->is_text()) return given->as_text();
  constexpr std::int64_t widest = 1000;
  const std::int64_t width = arguments.integer("indent", 0);
  if (width > widest)
    arguments.refuse("an indent of at most " + std::to_string(widest), "a wider one");
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
}

void read_separators(const CallArguments& arguments, JsonStyle& style) {
  if (style.indent) style.between_items = ",";
  const Value* const given = arguments.find("separators");
  if (given == nullptr || given->is<None>()) return;
  const bool is_sequence = given->is<SequencePointer>();
  if (!is_sequence || given->as<SequencePointer>()->items.size() != 2)
    arguments.refuse("two separators", given->type_name());
  const std::vector<Value>& separators = given->as<SequencePointer>()->items;
  for (const Value& separator : separators)
    if (!separator.is_text()) arguments.refuse("texts as separators", separator.type_name());
  style.between_items = separators[0].as_text();
  style.behind_key = separators[1].as_text();
}

Value to_json_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = arguments.truth("ensure_ascii", false);
  style.indent = indent_of(arguments);
  style.sorts_keys = arguments.truth("sort_keys", false);
  read_separators(arguments, style);
  return Value::text(json_of(input, style, work));
}

const FilterTable& value_filters() {
  static const FilterTable table = {
      {"abs", abs_filter},       {"d", default_filter},      {"default", default_filter},
      {"float", float_filter},   {"int", int_filter},        {"safe", safe_filter},
      {"string", string_filter}, {"tojson", to_json_filter},
  };
  return table;
}

FilterFunction find_filter(std::string_view name) {
  for (const FilterTable* const table : {&value_filters(), &text_filters(), &sequence_filters()})
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return nullptr;
}

}  // namespace

bool is_known_filter(std::string_view name) { return find_filter(name) != nullptr; }

Value apply_filter(const Value& input, CallArguments arguments, Work& work) {
  const FilterFunction function = find_filter(arguments.function);
  if (function == nullptr)
    throw Failure("a filter that this version knows", "'" + arguments.function + "'");
  work.spend(1);
  return function(input, arguments, work);
}

}  // namespace accrue::data::jinja
