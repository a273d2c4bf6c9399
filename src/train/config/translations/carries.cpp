#include "train/config/translations/carries.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "core/lower_case.h"

namespace accrue::train::carry {
namespace {

/// A text, or a number as a text, in lower case.
std::string word_of(const Value& value) {
  std::string text;
  if (const auto* stated = value.as<std::string>()) text = *stated;
  if (value.as<std::int64_t>()) text = to_toml(value);
  return lower_case(std::move(text));
}

struct Meaning {
  std::string_view part;  ///< a part of the other system's word
  const char* ours;
};

/// The meaning of the first part that `value` contains.
std::optional<Value> meaning_of(const Value& value, std::initializer_list<Meaning> meanings) {
  const std::string word = word_of(value);
  for (const Meaning& meaning : meanings)
    if (word.find(meaning.part) != std::string::npos) return Value{std::string(meaning.ours)};
  return std::nullopt;
}

std::optional<Value> with_unit(const Value& value, double factor, const char* unit) {
  const auto number = value.number();
  if (!number) return std::nullopt;
  // Rounded, as 0.07 * 100 is not 7.
  constexpr double kDigits = 1e9;
  std::string text = to_toml(Value{std::round(*number * factor * kDigits) / kDigits});
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return Value{text + unit};
}

}  // namespace

std::optional<Value> same(const Value& value) { return value; }

std::optional<Value> only_one(const Value& value) {
  const auto* list = value.as<Value::Array>();
  if (!list) return value;
  return list->size() == 1 ? std::optional(list->front()) : std::nullopt;
}

std::optional<Value> not_empty(const Value& value) {
  const auto* list = value.as<Value::Array>();
  const auto* text = value.as<std::string>();
  const bool empty = (list && list->empty()) || (text && text->empty());
  return empty ? std::nullopt : std::optional(value);
}

std::optional<Value> above_zero(const Value& value) {
  const auto number = value.number();
  const bool is_above = number && *number >= std::numeric_limits<float>::min();
  return is_above ? std::optional(value) : std::nullopt;
}

std::optional<Value> percent(const Value& value) { return with_unit(value, 100, "%"); }

std::optional<Value> steps_or_part(const Value& value) {
  const auto* part = value.as<double>();
  return part && *part < 1 ? percent(value) : value;
}

std::optional<Value> epochs(const Value& value) { return with_unit(value, 1, " epochs"); }
std::optional<Value> seconds(const Value& value) { return with_unit(value, 1, " s"); }
std::optional<Value> minutes(const Value& value) { return with_unit(value, 1, " min"); }

std::optional<Value> precision(const Value& value) {
  return meaning_of(value, {{"64", "fp64"},
                            {"double", "fp64"},
                            {"16", "bf16"},
                            {"half", "bf16"},
                            {"32", "fp32"},
                            {"no", "fp32"}});
}

std::optional<Value> optimizer(const Value& value) {
  if (word_of(value) == "adam") return Value{std::string("adam")};
  return meaning_of(value, {{"adamw", "adamw"}, {"sgd", "sgd"}, {"rmsprop", "rmsprop"}});
}

std::optional<Value> schedule(const Value& value) {
  return meaning_of(value, {{"cosine", "cosine"}, {"linear", "linear"}, {"constant", "constant"}});
}

std::optional<Value> order(const Value& value) {
  if (const auto* shuffles = value.as<bool>())
    return Value{std::string(*shuffles ? "shuffle" : "sequential")};
  return meaning_of(value, {{"sequential", "sequential"}, {"random", "shuffle"}});
}

std::optional<Value> shard(const Value& value) {
  if (const auto* stage = value.as<std::int64_t>())
    return Value{std::string(*stage == 0 ? "none" : "optimizer")};
  return meaning_of(value, {{"no_shard", "none"}, {"none", "none"}, {"", "optimizer"}});
}

}  // namespace accrue::train::carry
