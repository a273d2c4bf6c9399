#include "data/chat/template/values/value_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/utf8.h"
#include "data/chat/template/values/python_text.h"

namespace accrue::data::jinja {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

void append_hex(char32_t code_point, int digits, std::string& text) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    text += hex_digits[(code_point >> shift) & 0xf];
}

void append_escaped(char32_t code_point, std::string& text) {
  const bool is_short = code_point < 0x100;
  const bool is_long = code_point > 0xffff;
  text += is_short ? "\\x" : is_long ? "\\U" : "\\u";
  append_hex(code_point, is_short ? 2 : is_long ? 8 : 4, text);
}

std::string repr_of_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string shown(1, quote);
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const char32_t code_point = code_point_at(text, at);
    if (code_point == static_cast<char32_t>(quote) || code_point == U'\\') {
      shown += {'\\', static_cast<char>(code_point)};
    } else if (code_point == U'\n') {
      shown += "\\n";
    } else if (code_point == U'\r') {
      shown += "\\r";
    } else if (code_point == U'\t') {
      shown += "\\t";
    } else if (is_printable(code_point)) {
      shown += text.substr(at, utf8_length(text[at]));
    } else {
      append_escaped(code_point, shown);
    }
  }
  return shown += quote;
}

/// Writes values as Python's repr does; the caller handles top-level texts, which str shows.
class Repr {
 public:
  explicit Repr(Work& work) : work_(work) {}

  void write(const Value& value, int depth) {
    if (depth > Work::deepest_value) throw Failure("a value that can be printed", "one in itself");
    const std::size_t before = text_.size();
    if (value.is_text())
      text_ += repr_of_text(value.as_text());
    else if (value.is<SequencePointer>())
      write_sequence(*value.as<SequencePointer>(), depth);
    else if (value.is<MappingPointer>())
      write_mapping(*value.as<MappingPointer>(), depth);
    else if (value.is<Namespace*>())
      write_namespace(*value.as<Namespace*>(), depth);
    else
      text_ += plain(value);
    work_.spend(text_.size() - before + 1);
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string plain(const Value& value) {
    if (value.is<Undefined>()) return "Undefined";
    if (value.is<None>()) return "None";
    if (value.is<bool>()) return value.as<bool>() ? "True" : "False";
    if (value.is<std::int64_t>()) return std::to_string(value.as<std::int64_t>());
    if (value.is<LargeInteger>()) return *value.as<LargeInteger>().digits;
    if (value.is<double>()) return float_text(value.as<double>());
    throw Failure("a value that can be printed", value.type_name());
  }

  void write_items(const std::vector<Value>& items, int depth) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_ += ", ";
      write(items[i], depth + 1);
    }
  }

  void write_sequence(const Sequence& sequence, int depth) {
    using enum Sequence::Kind;
    if (sequence.kind == range) throw Failure("a value that can be printed", "a range");
    if (sequence.is_view())
      text_ += sequence.kind == dict_keys     ? "dict_keys("
               : sequence.kind == dict_values ? "dict_values("
                                              : "dict_items(";
    const bool is_tuple = sequence.kind == tuple;
    text_ += is_tuple ? '(' : '[';
    write_items(sequence.items, depth);
    if (is_tuple && sequence.items.size() == 1) text_ += ',';
    text_ += is_tuple ? ')' : ']';
    if (sequence.is_view()) text_ += ')';
  }

  void write_mapping(const Mapping& mapping, int depth) {
    text_ += '{';
    for (std::size_t i = 0; i < mapping.entries.size(); ++i) {
      if (i > 0) text_ += ", ";
      write(mapping.entries[i].first, depth + 1);
      text_ += ": ";
      write(mapping.entries[i].second, depth + 1);
    }
    text_ += '}';
  }

  void write_namespace(const Namespace& space, int depth) {
    text_ += "<Namespace {";
    for (std::size_t i = 0; i < space.attributes.size(); ++i) {
      if (i > 0) text_ += ", ";
      text_ += repr_of_text(space.attributes[i].first) + ": ";
      write(space.attributes[i].second, depth + 1);
    }
    text_ += "}>";
  }

  Work& work_;
  std::string text_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.begin(), buffer.end(), value, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t mark = shortest.find('e');
  int exponent = 0;
  const std::string_view power = shortest.substr(mark + 1);
  std::from_chars(power.data() + (power[0] == '+' ? 1 : 0), power.data() + power.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  const auto fixed =
      std::to_chars(buffer.begin(), buffer.end(), value, std::chars_format::fixed).ptr;
  std::string text(buffer.data(), static_cast<std::size_t>(fixed - buffer.data()));
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string repr_of(const Value& value, Work& work) {
  Repr repr(work);
  repr.write(value, 0);
  return repr.take();
}

std::string str_of(const Value& value, Work& work) {
  if (value.is_text()) {
    work.spend(value.as_text().size());
    return value.as_text();
  }
  if (value.is<Markup>()) return *value.as<Markup>().text;
  if (value.is<Undefined>()) return "";
  return repr_of(value, work);
}

}  // namespace accrue::data::jinja
