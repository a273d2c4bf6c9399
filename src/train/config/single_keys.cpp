// Keys whose values have special forms.
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "train/config/key_builders.h"
#include "train/config/names.h"
#include "train/config/translations/other_words.h"

namespace accrue::train {
namespace {

/// The smallest and the largest value, both in `range`.
data::Interval read_interval(const Stated& stated, const std::string& expected,
                             const NumberRange& range, const std::string& example) {
  const auto* array = stated.value.as<Value::Array>();
  if (!array || array->size() != 2) throw refusal(stated, expected, example);
  for (const Value& end : *array)
    if (!end.number() || !range.holds(*end.number())) throw refusal(stated, expected, example);
  const data::Interval interval{*(*array)[0].number(), *(*array)[1].number()};
  if (interval.least > interval.most) throw refusal(stated, expected, "the least of them first");
  return interval;
}

/// A budget as stated; a run of an earlier version may have bytes without a unit.
std::string budget_text(const Stated& stated) {
  std::string text = stated.bare.value_or("");
  if (const auto* word = stated.value.as<std::string>()) text = *word;
  if (stated.value.as<std::int64_t>()) text = to_toml(stated.value);
  const bool only_digits =
      !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return stated.by_run && only_digits ? text + " B" : text;
}

}  // namespace

Key betas_key(KeyName name) {
  const NumberRange range{.least = 0, .most = 1, .most_excluded = true};
  const std::string expected = "an array of two numbers, each in [0.0, 1.0)";
  auto set = [=](const Stated& stated, Config& config) {
    const auto* array = stated.value.as<Value::Array>();
    if (!array || array->size() != 2) throw refusal(stated, expected, "[0.9, 0.95]");
    for (const Value& beta : *array)
      if (!beta.number() || !range.holds(*beta.number()))
        throw refusal(stated, expected, "[0.9, 0.95]");
    config.optim.beta1 = *(*array)[0].number();
    config.optim.beta2 = *(*array)[1].number();
  };
  auto get = [](const Config& config) {
    return std::optional(
        Value{Value::Array{value_of(config.optim.beta1), value_of(config.optim.beta2)}});
  };
  return {std::move(name), expected, std::move(set), std::move(get)};
}

Key crop_key(KeyName name) {
  return make_key(
      std::move(name), "\"none\" or the least and the most of an image's area, each in (0.0, 1.0]",
      [](auto& c) -> auto& { return c.data.augment.crop; },
      [](const Stated& stated, const std::string& expected) {
        return is_word(stated, "none")
                   ? std::optional<data::Interval>()
                   : std::optional(read_interval(stated, expected,
                                                 {.least = 0, .most = 1, .least_excluded = true},
                                                 "[0.08, 1.0]"));
      },
      [](const auto& crop) { return crop ? value_of(*crop) : value_of(std::string("none")); });
}

Key ratio_key(KeyName name) {
  return make_key(
      std::move(name), "the least and the most of width by height, each in [0.01, 100.0]",
      [](auto& c) -> auto& { return c.data.augment.ratio; },
      [](const Stated& stated, const std::string& expected) {
        return read_interval(stated, expected, {.least = 0.01, .most = 100}, "[0.75, 1.333]");
      },
      [](const data::Interval& ratio) { return value_of(ratio); });
}

Key model_kind_key(KeyName name) {
  Key key = choice_key(
      std::move(name), model_kind_words, {}, [](auto& c) -> auto& { return c.model.kind; },
      kind_without_version);
  key.expected = "\"auto\" or " + key.expected;
  key.set = [set = key.set](const Stated& stated, Config& config) {
    const bool is_auto = is_word(stated, "auto");
    if (!is_auto) set(stated, config);
    config.model.kind_is_auto = is_auto;
  };
  return key;
}

Key tokenizer_key(KeyName name) {
  return string_key(
      std::move(name), "\"auto\", \"bytes\", a tokenizer.json or its folder",
      [](auto& c) -> auto& { return c.data.tokenizer; });
}

Key image_size_key(KeyName name) {
  const IntegerRange range{1, most::image_side};
  const std::string expected =
      "\"auto\", a side in pixels or [height, width], each " + range.in_words();
  auto set = [=](const Stated& stated, Config& config) {
    std::vector<std::int64_t> size;
    if (const auto* array = stated.value.as<Value::Array>()) {
      for (const Value& side : *array)
        size.push_back(read_integer({side, {}, stated.where}, expected, range));
      if (size.size() != 2) throw refusal(stated, expected, "[224, 224]");
    } else if (!is_word(stated, "auto")) {
      size.assign(2, read_integer(stated, expected, range));
    }
    config.data.image = std::move(size);
  };
  auto get = [](const Config& config) {
    const std::vector<std::int64_t>& size = config.data.image;
    if (size.empty()) return std::optional(value_of(std::string("auto")));
    return std::optional(Value{Value::Array{value_of(size[0]), value_of(size[1])}});
  };
  return {std::move(name), expected, std::move(set), std::move(get)};
}

Key budget_key(KeyName name) {
  const std::string expected = "\"none\", \"auto\" or bytes with their unit such as \"6GiB\"";
  auto set = [=](const Stated& stated, Config& config) {
    std::string text = budget_text(stated);
    if (text.empty()) throw refusal(stated, expected, "\"6GiB\"");
    if (text != "none" && text != "auto" && parse_bytes(text, stated.where).count <= 0)
      throw refusal(stated, expected, "\"6GiB\"");
    config.memory.budget = std::move(text);
  };
  auto get = [](const Config& config) { return std::optional(value_of(config.memory.budget)); };
  return {std::move(name), expected, std::move(set), std::move(get)};
}

Key offload_budget_key(KeyName name) {
  return make_key(
      std::move(name), "\"none\" or bytes with their unit such as \"40GiB\"",
      [](auto& c) -> auto& { return c.memory.offload_budget; },
      [](const Stated& stated, const std::string& expected) {
        std::string text = budget_text(stated);
        const bool is_none = text == "none";
        if (text.empty() || (!is_none && parse_bytes(text, stated.where).count <= 0))
          throw refusal(stated, expected, "\"40GiB\"");
        return text;
      });
}

}  // namespace accrue::train
