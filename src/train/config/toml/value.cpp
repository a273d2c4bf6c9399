#include "train/config/toml/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace accrue::train {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string toml_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(byte));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // This is the shortest text that reads back to the same bits; it has an exponent only if people
  // would write one.
  const bool plain = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e15);
  std::array<char, 48> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string text(buffer.data(), end);
  // TOML distinguishes floats from integers by a point or an exponent.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string array_text(const Value::Array& array) {
  std::string text = "[";
  for (std::size_t i = 0; i < array.size(); ++i) text += (i ? ", " : "") + to_toml(array[i]);
  return text + "]";
}

bool is_bare_key(const std::string& name) {
  constexpr const char* signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  return !name.empty() && name.find_first_not_of(signs) == std::string::npos;
}

std::string table_text(const Value::Table& table) {
  std::string text;
  for (const Value::Field& field : table)
    text += (text.empty() ? " " : ", ") +
            (is_bare_key(field.name) ? field.name : toml_string(field.name)) + " = " +
            to_toml(field.value);
  return "{" + text + (text.empty() ? "}" : " }");
}

}  // namespace

std::optional<double> Value::number() const {
  if (const auto* integer = as<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* real = as<double>()) return *real;
  return std::nullopt;
}

bool equal(const Value& a, const Value& b) {
  if (a.number() && b.number()) return *a.number() == *b.number();
  const auto* left = a.as<Value::Array>();
  const auto* right = b.as<Value::Array>();
  if (left && right)
    return std::equal(left->begin(), left->end(), right->begin(), right->end(), equal);
  const auto* fields = a.as<Value::Table>();
  const auto* others = b.as<Value::Table>();
  if (fields && others)
    return std::equal(fields->begin(), fields->end(), others->begin(), others->end(),
                      [](const Value::Field& x, const Value::Field& y) {
                        return x.name == y.name && equal(x.value, y.value);
                      });
  if (a.data.index() != b.data.index() || left || fields) return false;
  if (const auto* text = a.as<std::string>()) return *text == *b.as<std::string>();
  if (const auto* flag = a.as<bool>()) return *flag == *b.as<bool>();
  return *a.as<Value::Other>() == *b.as<Value::Other>();
}

std::string to_toml(const Value& value) {
  return std::visit(Overloaded{[](bool flag) { return std::string(flag ? "true" : "false"); },
                               [](std::int64_t integer) { return std::to_string(integer); },
                               [](double real) { return float_text(real); },
                               [](const std::string& text) { return toml_string(text); },
                               [](const Value::Array& array) { return array_text(array); },
                               [](const Value::Table& table) { return table_text(table); },
                               [](const Value::Other& other) { return other.type; }},
                    value.data);
}

std::string describe(const Value& value) {
  return std::visit(Overloaded{[&](bool) { return to_toml(value) + " (a boolean)"; },
                               [&](std::int64_t) { return to_toml(value) + " (an integer)"; },
                               [&](double) { return to_toml(value) + " (a float)"; },
                               [&](const std::string&) { return to_toml(value) + " (a string)"; },
                               [&](const Value::Array&) { return to_toml(value) + " (an array)"; },
                               [&](const Value::Table&) { return to_toml(value) + " (a table)"; },
                               [](const Value::Other& other) { return "a " + other.type; }},
                    value.data);
}

}  // namespace accrue::train
