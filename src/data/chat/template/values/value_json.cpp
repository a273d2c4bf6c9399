#include <algorithm>
#include <cmath>

#include "core/utf8.h"
#include "data/chat/template/values/value_order.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Work& work) : style_(style), work_(work) {}

  void write(const Value& value, int level) {
    const std::size_t before = text_.size();
    if (value.is_text())
      write_text(value.as_text());
    else if (value.is<Markup>())
      write_text(*value.as<Markup>().text);
    else if (value.is<MappingPointer>())
      write_mapping(*value.as<MappingPointer>(), level);
    else if (is_list(value))
      write_list(value.as<SequencePointer>()->items, level);
    else
      text_ += plain(value);
    work_.spend(text_.size() - before + 1);
  }

  std::string take() { return std::move(text_); }

 private:
  static bool is_list(const Value& value) {
    return value.is<SequencePointer>() &&
           value.as<SequencePointer>()->kind <= Sequence::Kind::tuple;
  }

  static std::string plain(const Value& value) {
    if (value.is<None>()) return "null";
    if (value.is<bool>()) return value.as<bool>() ? "true" : "false";
    if (value.is<std::int64_t>()) return std::to_string(value.as<std::int64_t>());
    if (value.is<LargeInteger>()) return *value.as<LargeInteger>().digits;
    if (!value.is<double>()) throw Failure("a value that JSON has", value.type_name());
    const double number = value.as<double>();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  void break_line(int level) {
    if (!style_.indent) return;
    text_ += '\n';
    for (int i = 0; i < level; ++i) text_ += *style_.indent;
    work_.spend(style_.indent->size() * static_cast<std::size_t>(level));
  }

  void write_list(const std::vector<Value>& items, int level) {
    text_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_ += style_.between_items;
      break_line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) break_line(level);
    text_ += ']';
  }

  void write_mapping(const Mapping& mapping, int level) {
    auto entries = mapping.entries;
    if (style_.sorts_keys)
      std::ranges::stable_sort(entries, [&](const auto& one, const auto& other) {
        return is_less(one.first, other.first, work_);
      });
    text_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) text_ += style_.between_items;
      break_line(level + 1);
      write_text(key_text(entries[i].first));
      text_ += style_.behind_key;
      write(entries[i].second, level + 1);
    }
    if (!entries.empty()) break_line(level);
    text_ += '}';
  }

  static std::string key_text(const Value& key) {
    if (key.is_text()) return key.as_text();
    if (key.is<None>() || key.is_number() || key.is<LargeInteger>()) return plain(key);
    throw Failure("a key that JSON has", key.type_name());
  }

  void write_text(std::string_view text) {
    text_ += '"';
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at]))
      write_character(text, at);
    text_ += '"';
  }

  void write_character(std::string_view text, std::size_t at) {
    constexpr std::string_view escaped = "\"\\\n\r\t\f\b";
    constexpr std::string_view letters = "\"\\nrtfb";
    if (const std::size_t known = escaped.find(text[at]); known != std::string_view::npos) {
      text_ += {'\\', letters[known]};
      return;
    }
    const char32_t code_point = code_point_at(text, at);
    if (code_point < 0x20 || (style_.ascii && code_point > 0x7e))
      write_units(code_point);
    else
      text_ += text.substr(at, utf8_length(text[at]));
  }

  void write_units(char32_t code_point) {
    if (code_point > 0xffff) {
      write_unit(0xd800 + ((code_point - 0x10000) >> 10));
      write_unit(0xdc00 + ((code_point - 0x10000) & 0x3ff));
    } else {
      write_unit(code_point);
    }
  }

  void write_unit(char32_t unit) {
    text_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) text_ += "0123456789abcdef"[(unit >> shift) & 0xf];
  }

  const JsonStyle& style_;
  Work& work_;
  std::string text_;
};

}  // namespace

std::string json_of(const Value& value, const JsonStyle& style, Work& work) {
  JsonWriter writer(style, work);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace accrue::data::jinja
