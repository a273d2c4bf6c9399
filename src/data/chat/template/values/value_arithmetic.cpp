#include <cmath>
#include <limits>

#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"

namespace accrue::data::jinja {
namespace {

[[noreturn]] void refuse_operands(std::string_view op, const Value& left, const Value& right) {
  throw Failure("values that '" + std::string(op) + "' is for",
                left.type_name() + " and " + right.type_name());
}

std::int64_t in_range(bool overflows, std::int64_t value) {
  if (overflows) throw Failure("integers of at most 63 bits and a sign", "a larger one");
  return value;
}

std::int64_t floor_quotient(std::int64_t left, std::int64_t right) {
  if (right == 0) throw Failure("a divisor other than 0", "0");
  in_range(left == std::numeric_limits<std::int64_t>::min() && right == -1, 0);
  const std::int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) in_range(__builtin_mul_overflow(result, base, &result), result);
  return result;
}

std::optional<Value> integer_arithmetic(std::string_view op, std::int64_t left,
                                        std::int64_t right) {
  std::int64_t result = 0;
  if (op == "+")
    in_range(__builtin_add_overflow(left, right, &result), result);
  else if (op == "-")
    in_range(__builtin_sub_overflow(left, right, &result), result);
  else if (op == "*")
    in_range(__builtin_mul_overflow(left, right, &result), result);
  else if (op == "//")
    result = floor_quotient(left, right);
  else if (op == "%")
    result = right == -1 ? 0 : left - floor_quotient(left, right) * right;
  else if (op == "**" && right >= 0)
    result = integer_power(left, right);
  else
    return std::nullopt;
  return Value::integer(result);
}

double real_modulo(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

double real_floor_quotient(double left, double right) {
  const double rest = real_modulo(left, right);
  const double quotient = (left - rest) / right;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double below = std::floor(quotient);
  return quotient - below > 0.5 ? below + 1 : below;
}

double real_power(double left, double right) {
  if (left == 0 && right < 0) throw Failure("a base other than 0", "0");
  if (left < 0 && right != std::floor(right))
    throw Failure("a base of at least 0", "a negative one");
  const double power = std::pow(left, right);
  if (std::isinf(power) && std::isfinite(left) && std::isfinite(right))
    throw Failure("a power that a float has room for", "a larger one");
  return power;
}

Value real_arithmetic(std::string_view op, double left, double right) {
  if (op == "+") return Value::real(left + right);
  if (op == "-") return Value::real(left - right);
  if (op == "*") return Value::real(left * right);
  if (op == "**") return Value::real(real_power(left, right));
  if (right == 0) throw Failure("a divisor other than 0", "0");
  if (op == "/") return Value::real(left / right);
  return Value::real(op == "%" ? real_modulo(left, right) : real_floor_quotient(left, right));
}

std::size_t repetitions(const Value& count, std::size_t size, Work& work) {
  const std::int64_t times = std::max<std::int64_t>(0, count.as_integer());
  if (size == 0) return 0;
  if (static_cast<std::uint64_t>(times) > Work::most / size) work.spend(Work::most + 1);
  work.spend(size * static_cast<std::size_t>(times));
  return static_cast<std::size_t>(times);
}

std::optional<Value> repeated(const Value& value, const Value& count, Work& work) {
  if (!count.is_integral()) return std::nullopt;
  if (value.is_text()) {
    std::string text;
    for (std::size_t i = repetitions(count, value.as_text().size(), work); i > 0; --i)
      text += value.as_text();
    return Value::text(std::move(text));
  }
  if (!value.is<SequencePointer>()) return std::nullopt;
  const Sequence& sequence = *value.as<SequencePointer>();
  if (sequence.kind > Sequence::Kind::tuple) return std::nullopt;
  std::vector<Value> items;
  for (std::size_t i = repetitions(count, sequence.items.size() * sizeof(Value), work); i > 0; --i)
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return make_sequence(sequence.kind, std::move(items));
}

std::optional<Value> joined(const Value& left, const Value& right, Work& work) {
  if (left.is_text() && right.is_text()) {
    work.spend(left.as_text().size() + right.as_text().size());
    return Value::text(left.as_text() + right.as_text());
  }
  if (!left.is<SequencePointer>() || !right.is<SequencePointer>()) return std::nullopt;
  const Sequence& one = *left.as<SequencePointer>();
  const Sequence& other = *right.as<SequencePointer>();
  if (one.kind != other.kind || one.kind > Sequence::Kind::tuple) return std::nullopt;
  work.spend((one.items.size() + other.items.size()) * sizeof(Value));
  std::vector<Value> items = one.items;
  items.insert(items.end(), other.items.begin(), other.items.end());
  return make_sequence(one.kind, std::move(items));
}

}  // namespace

bool is_true(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (value.is_number()) return value.as_real() != 0;
  if (value.is_text()) return !value.as_text().empty();
  if (value.is<Markup>()) return !value.as<Markup>().text->empty();
  if (value.is<SequencePointer>()) return !value.as<SequencePointer>()->items.empty();
  if (value.is<MappingPointer>()) return !value.as<MappingPointer>()->entries.empty();
  return true;
}

Value negated(const Value& value) {
  if (value.is<double>()) return Value::real(-value.as<double>());
  if (!value.is_integral()) throw Failure("a number behind '-'", value.type_name());
  std::int64_t result = 0;
  in_range(__builtin_sub_overflow(std::int64_t{0}, value.as_integer(), &result), result);
  return Value::integer(result);
}

Value arithmetic(std::string_view op, const Value& left, const Value& right, Work& work) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral())
      if (auto result = integer_arithmetic(op, left.as_integer(), right.as_integer()))
        return *result;
    return real_arithmetic(op, left.as_real(), right.as_real());
  }
  std::optional<Value> result;
  if (op == "+") result = joined(left, right, work);
  if (op == "*")
    result = left.is_integral() ? repeated(right, left, work) : repeated(left, right, work);
  if (op == "%" && left.is_text())
    result = Value::text(percent_format(left.as_text(), right, work));
  if (!result) refuse_operands(op, left, right);
  return *result;
}

}  // namespace accrue::data::jinja
