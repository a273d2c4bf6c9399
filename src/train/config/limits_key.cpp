#include <cmath>

#include "train/config/elements_reader.h"

namespace accrue::train {
namespace {

constexpr const char* limits_example =
    R"([{file = "/sys/class/thermal/thermal_zone0/temp", above = 85000, do = "slow"}, )"
    R"({file = "/run/preempted", do = "checkpoint"}])";

/// Reads the elements of run.limits, a table each.
class LimitsReader : ElementsReader {
 public:
  LimitsReader(const Stated& stated, const std::string& expected)
      : ElementsReader(stated, expected, limits_example) {}

  std::vector<Limit> read() const {
    std::vector<Limit> limits;
    for (const Value& value : elements()) limits.push_back(limit_of(value));
    return limits;
  }

 private:
  Limit limit_of(const Value& value) const {
    Limit limit;
    bool says_what_to_do = false;
    for (const Value::Field& field : table_of(value)) {
      take(field, value, limit);
      says_what_to_do |= field.name == "do";
    }
    if (!says_what_to_do) throw refusal(value, in_words_of_actions());
    if (limit.file.empty() == limit.command.empty())
      throw refusal(value, "either a file or a command in each");
    if (limit.above && limit.below) throw refusal(value, "above or below, or a limit for each");
    check_until(limit, value);
    if (limit.speed && limit.action != LimitAction::slow)
      throw refusal(value, "speed with do = \"slow\" alone");
    return limit;
  }

  void take(const Value::Field& field, const Value& value, Limit& limit) const {
    if (field.name == "file") {
      limit.file = text_of(field, value);
    } else if (field.name == "command") {
      limit.command = text_of(field, value);
    } else if (field.name == "above") {
      limit.above = number_of(field, value);
    } else if (field.name == "below") {
      limit.below = number_of(field, value);
    } else if (field.name == "until") {
      limit.until = number_of(field, value);
    } else if (field.name == "do") {
      const auto action = limit_action_words.find(text_of(field, value));
      if (!action) throw refusal(value, in_words_of_actions());
      limit.action = *action;
    } else if (field.name == "speed") {
      limit.speed = number_of(field, value);
      if (*limit.speed < kLeastSpeed || *limit.speed >= 1)
        throw refusal(value, "a speed of at least 0.01 and below 1; do = \"pause\" is none");
    } else if (field.name == "every") {
      limit.every = interval_of(field, value);
    } else {
      throw other_key(value);
    }
  }

  void check_until(const Limit& limit, const Value& value) const {
    if (!limit.until) return;
    if (!limit.above && !limit.below) throw refusal(value, "until beside above or below");
    if ((limit.above && *limit.until > *limit.above) ||
        (limit.below && *limit.until < *limit.below))
      throw refusal(value,
                    "an until at the bound or behind it: not above `above`, nor below "
                    "`below`");
  }

  Duration interval_of(const Value::Field& field, const Value& value) const {
    const auto* text = field.value.as<std::string>();
    const auto every = text ? try_parse_duration(*text) : std::nullopt;
    if (!every || every->unit != Duration::Unit::seconds || !std::isfinite(every->value) ||
        every->value < kLeastSeconds)
      throw refusal(value, "every as a time of at least \"0.1 s\"");
    return *every;
  }

  static std::string in_words_of_actions() {
    return R"(do = "slow", "pause", "checkpoint" or "stop" in each)";
  }

  static constexpr double kLeastSpeed = 0.01, kLeastSeconds = 0.1;
};

Value value_of_limit(const Limit& limit) {
  Value::Table table{limit.command.empty() ? Value::Field{"file", value_of(limit.file)}
                                           : Value::Field{"command", value_of(limit.command)}};
  if (limit.above) table.push_back({"above", value_of(*limit.above)});
  if (limit.below) table.push_back({"below", value_of(*limit.below)});
  if (limit.until) table.push_back({"until", value_of(*limit.until)});
  table.push_back({"do", value_of(std::string(limit_action_words.of(limit.action)))});
  if (limit.speed) table.push_back({"speed", value_of(*limit.speed)});
  if (limit.every) table.push_back({"every", value_of(*limit.every)});
  return {std::move(table)};
}

}  // namespace

Key limits_key(KeyName name) {
  return make_key(
      std::move(name), "an array of {file or command, above or below, until, do, speed, every}",
      [](auto& c) -> auto& { return c.run.limits; },
      [](const Stated& stated, const std::string& expected) {
        return LimitsReader(stated, expected).read();
      },
      [](const std::vector<Limit>& limits) {
        Value::Array array;
        for (const Limit& limit : limits) array.push_back(value_of_limit(limit));
        return Value{std::move(array)};
      });
}

}  // namespace accrue::train
