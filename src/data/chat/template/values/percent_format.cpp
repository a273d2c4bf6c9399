#include <array>
#include <cstdio>

#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

/// One conversion of a format: %[flags][width][.precision]kind.
struct Conversion {
  std::string flags;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
  char kind = 0;
};

[[noreturn]] void refuse_format(const std::string& received) {
  throw Failure("a format of %s, %r, %d, %i, %f, %x and %%", received);
}

std::size_t read_number(std::string_view format, std::size_t& at) {
  constexpr std::size_t widest = 4096;
  std::size_t number = 0;
  for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
    number = number * 10 + static_cast<std::size_t>(format[at] - '0');
    if (number > widest) refuse_format("a width of more than " + std::to_string(widest));
  }
  return number;
}

Conversion read_conversion(std::string_view format, std::size_t& at) {
  Conversion conversion;
  constexpr std::string_view flags = "-+ 0#";
  while (at < format.size() && flags.find(format[at]) != std::string_view::npos)
    conversion.flags += format[at++];
  conversion.width = read_number(format, at);
  if (at < format.size() && format[at] == '.') conversion.precision = read_number(format, ++at);
  if (at == format.size()) refuse_format("one that ends in a conversion");
  conversion.kind = format[at++];
  if (conversion.kind == 'i') conversion.kind = 'd';
  if (std::string_view("srdfx%").find(conversion.kind) == std::string_view::npos)
    refuse_format(std::string("%") + conversion.kind);
  return conversion;
}

std::string printed_number(const Conversion& conversion, const Value& value) {
  if (!value.is_number() || (conversion.kind == 'x' && !value.is_integral()))
    throw Failure("a number for a format", value.type_name());
  const bool is_integral = conversion.kind != 'f';
  if (is_integral && value.is<double>() && !(std::abs(value.as<double>()) < 9e18))
    throw Failure("integers of at most 63 bits and a sign", "a larger one");
  std::string pattern = "%" + conversion.flags + "*.*" + (is_integral ? "ll" : "");
  pattern += conversion.kind;
  std::int64_t integer = 0;
  if (is_integral)
    integer =
        value.is<double>() ? static_cast<std::int64_t>(value.as<double>()) : value.as_integer();
  if (conversion.kind == 'x' && integer < 0) refuse_format("%x of a negative number");
  const int width = static_cast<int>(conversion.width);
  const int precision = conversion.precision ? static_cast<int>(*conversion.precision) : -1;
  std::vector<char> text(static_cast<std::size_t>(width + std::max(precision, 0)) + 512);
  const int size = is_integral ? std::snprintf(text.data(), text.size(), pattern.c_str(), width,
                                               precision, static_cast<long long>(integer))
                               : std::snprintf(text.data(), text.size(), pattern.c_str(), width,
                                               precision, value.as_real());
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string converted(const Conversion& conversion, const Value& value, Work& work) {
  if (conversion.kind != 's' && conversion.kind != 'r') return printed_number(conversion, value);
  std::string text = conversion.kind == 's' ? str_of(value, work) : repr_of(value, work);
  if (conversion.precision) text.resize(byte_of(text, *conversion.precision));
  const std::size_t size = code_points(text);
  if (size >= conversion.width) return text;
  const std::string padding(conversion.width - size, ' ');
  const bool is_left = conversion.flags.find('-') != std::string::npos;
  return is_left ? text + padding : padding + text;
}

bool is_tuple(const Value& value) {
  return value.is<SequencePointer>() && value.as<SequencePointer>()->kind == Sequence::Kind::tuple;
}

std::vector<Value> format_arguments(const Value& given) {
  return is_tuple(given) ? given.as<SequencePointer>()->items : std::vector<Value>{given};
}

/// A value with keyed elements may exist for formats that name them, so it may stay unused.
bool may_be_left(const Value& given) {
  const bool is_list = given.is<SequencePointer>() && !given.as<SequencePointer>()->is_view();
  return given.is<Undefined>() || given.is<MappingPointer>() || (is_list && !is_tuple(given));
}

}  // namespace

std::string percent_format(const std::string& format, const Value& given, Work& work) {
  const std::vector<Value> arguments = format_arguments(given);
  std::string text;
  std::size_t used = 0;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    const Conversion conversion = read_conversion(format, ++at);
    if (conversion.kind == '%') {
      text += '%';
      continue;
    }
    if (used == arguments.size()) throw Failure("an argument for each conversion", "too few");
    text += converted(conversion, arguments[used++], work);
    work.spend(conversion.width + 1);
  }
  if (used < arguments.size() && !may_be_left(given))
    throw Failure("a conversion for each argument", "too many arguments");
  work.spend(text.size());
  return text;
}

}  // namespace accrue::data::jinja
