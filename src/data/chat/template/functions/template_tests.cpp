#include "data/chat/template/functions/template_tests.h"

#include <map>

#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_order.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

using TestOfValue = bool (*)(const Value& value);
using TestOfTwo = bool (*)(const Value& value, const Value& other, Work& work);

bool is_sequence(const Value& value) {
  const bool has_elements = value.is<SequencePointer>() && !value.as<SequencePointer>()->is_view();
  return has_elements || value.is<Undefined>() || value.is_text() || value.is<Markup>() ||
         value.is<MappingPointer>();
}

/// `number % divisor == 0`, which Python has for floats too.
bool is_divisible(const Value& value, const Value& divisor, Work& work) {
  return are_equal(arithmetic("%", value, divisor, work), Value::integer(0), work);
}

bool has_remainder(const Value& value, std::int64_t remainder) {
  Work work;
  return are_equal(arithmetic("%", value, Value::integer(2), work), Value::integer(remainder),
                   work);
}

const std::map<std::string_view, TestOfValue>& tests_of_value() {
  static const std::map<std::string_view, TestOfValue> table = {
      {"boolean", [](const Value& value) { return value.is<bool>(); }},
      {"callable",
       [](const Value& value) { return value.is<CallablePointer>() || value.is<Undefined>(); }},
      {"defined", [](const Value& value) { return !value.is<Undefined>(); }},
      {"even", [](const Value& value) { return has_remainder(value, 0); }},
      {"false", [](const Value& value) { return value.is<bool>() && !value.as<bool>(); }},
      {"float", [](const Value& value) { return value.is<double>(); }},
      {"integer",
       [](const Value& value) { return value.is<std::int64_t>() || value.is<LargeInteger>(); }},
      {"iterable", [](const Value& value) { return is_iterable(value); }},
      {"mapping", [](const Value& value) { return value.is<MappingPointer>(); }},
      {"none", [](const Value& value) { return value.is<None>(); }},
      {"number", [](const Value& value) { return value.is_number() || value.is<LargeInteger>(); }},
      {"odd", [](const Value& value) { return has_remainder(value, 1); }},
      {"sequence", is_sequence},
      {"string", [](const Value& value) { return value.is_text() || value.is<Markup>(); }},
      {"true", [](const Value& value) { return value.is<bool>() && value.as<bool>(); }},
      {"undefined", [](const Value& value) { return value.is<Undefined>(); }},
  };
  return table;
}

bool is_equal(const Value& value, const Value& other, Work& work) {
  return are_equal(value, other, work);
}
bool is_unequal(const Value& value, const Value& other, Work& work) {
  return !are_equal(value, other, work);
}
bool is_greater(const Value& value, const Value& other, Work& work) {
  return is_less(other, value, work);
}
/// Which equal numbers and texts are one object depends on Python's caches.
bool is_same(const Value& value, const Value& other, Work& work) {
  const bool is_plain = value.is_number() || value.is<LargeInteger>() || value.is_text();
  const bool is_unclear =
      !value.is<bool>() && is_plain && !other.is<bool>() && are_equal(value, other, work);
  if (is_unclear) throw Failure("'sameas' of none, true or false", value.type_name());
  return are_same(value, other);
}

bool is_at_most(const Value& value, const Value& other, Work& work) {
  return is_less(value, other, work) || are_equal(value, other, work);
}

bool is_at_least(const Value& value, const Value& other, Work& work) {
  return is_less(other, value, work) || are_equal(value, other, work);
}

const std::map<std::string_view, TestOfTwo>& tests_of_two() {
  static const std::map<std::string_view, TestOfTwo> table = {
      {"divisibleby", is_divisible},
      {"eq", is_equal},
      {"equalto", is_equal},
      {"==", is_equal},
      {"ne", is_unequal},
      {"!=", is_unequal},
      {"in", is_in},
      {"lt", is_less},
      {"lessthan", is_less},
      {"<", is_less},
      {"gt", is_greater},
      {"greaterthan", is_greater},
      {">", is_greater},
      {"le", is_at_most},
      {"<=", is_at_most},
      {"ge", is_at_least},
      {">=", is_at_least},
      {"sameas", is_same},
  };
  return table;
}

bool is_of_case(std::string_view name) { return name == "lower" || name == "upper"; }

}  // namespace

bool is_known_test(std::string_view name) {
  return tests_of_value().contains(name) || tests_of_two().contains(name) || is_of_case(name);
}

bool passes_test(const Value& input, CallArguments arguments, Work& work) {
  const std::string name = arguments.function;
  work.spend(1);
  if (is_of_case(name)) {
    arguments.expect({});
    const std::string text = str_of(input, work);
    return name == "lower" ? is_lower_text(text) : is_upper_text(text);
  }
  if (const auto found = tests_of_value().find(name); found != tests_of_value().end()) {
    arguments.expect({});
    return found->second(input);
  }
  const auto found = tests_of_two().find(name);
  if (found == tests_of_two().end())
    throw Failure("a test that this version knows", "'" + name + "'");
  arguments.expect({"other"}, 1);
  return found->second(input, arguments.get("other"), work);
}

}  // namespace accrue::data::jinja
