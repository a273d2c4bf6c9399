#include "train/config/key_builders.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "accrue/core/error.h"
#include "core/joined_words.h"
#include "core/nearest.h"
#include "core/words.h"
#include "train/config/names.h"

namespace accrue::train {
namespace {

std::string number_text(double value) { return to_toml(Value{value}); }

constexpr const char* value_in_range = "a value in that range";

bool is_number_beyond_64_bits(const Value& value) {
  const auto* other = value.as<Value::Other>();
  return other && other->is_number;
}

/// 32000 for "32k" and 1500000 for "1.5M": k, M, G and T are powers of 1,000, as in "10 M tokens".
/// None if the text has another form, or is not a whole number.
std::optional<std::int64_t> integer_with_prefix(const Value& value) {
  const auto* const text = value.as<std::string>();
  if (text == nullptr || text->empty()) return std::nullopt;
  constexpr std::string_view prefixes = "kMGT";
  constexpr double thousand = 1000;
  const char last = text->back() == 'K' ? 'k' : text->back();
  const std::size_t prefix = prefixes.find(last);
  if (prefix == std::string_view::npos) return std::nullopt;
  double number = 0;
  const char* const end = text->data() + text->size() - 1;
  const auto [read, error] = std::from_chars(text->data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || read != end) return std::nullopt;
  for (std::size_t i = 0; i <= prefix; ++i) number *= thousand;
  if (!(std::abs(number) < 0x1p53) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

/// The integer at the beginning of a text, without the unit behind it: 32000 for "32kb", 8 for
/// "8 samples". None without one, for one out of the range, and for a letter that may mean millions
/// or billions.
std::optional<std::string> integer_meant(const Value& value, const IntegerRange& range) {
  const auto* const stated = value.as<std::string>();
  if (stated == nullptr) return std::nullopt;
  std::string text = *stated;
  std::erase(text, ' ');
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto in_thousands = integer_with_prefix(Value{text.substr(0, digits + 1)});
  std::int64_t integer = 0;
  const char* const end = text.data() + digits;
  const auto [read, error] = std::from_chars(text.data(), end, integer);
  const bool is_plain = digits > 0 && error == std::errc() && read == end &&
                        (digits == text.size() ||
                         std::string_view("mbg").find(text[digits]) == std::string_view::npos);
  if (!in_thousands && !is_plain) return std::nullopt;
  integer = in_thousands.value_or(integer);
  return range.holds(integer) ? std::optional(std::to_string(integer)) : std::nullopt;
}

std::string advice_for_integer(const Value& value, const IntegerRange& range) {
  if (is_number_beyond_64_bits(value)) return value_in_range;
  const auto* const real = value.as<double>();
  if (!real) return integer_meant(value, range).value_or("digits, such as 8");
  if (!(std::abs(*real) < 0x1p63)) return value_in_range;
  const auto integer = static_cast<std::int64_t>(*real);
  if (static_cast<double>(integer) != *real) return "an integer";
  return range.holds(integer) ? "the integer " + std::to_string(integer) : value_in_range;
}

/// The number that a text was meant to be: "10%" is 0.1, "5" and "5x" are 5; none if that is not in
/// the range.
std::optional<std::string> number_meant(const Value& value, const NumberRange& range) {
  const auto* text = value.as<std::string>();
  if (text == nullptr) return std::nullopt;
  std::istringstream words(*text);
  double number = 0;
  std::string unit;
  if (!(words >> number)) return std::nullopt;
  words >> unit;
  constexpr double percent = 100;
  if (unit == "%") number /= percent;
  return range.holds(number) ? std::optional(number_text(number)) : std::nullopt;
}

std::string advice_for_number(const Value& value, const NumberRange& range) {
  if (is_number_beyond_64_bits(value)) return value_in_range;
  return number_meant(value, range).value_or("a number without quotes");
}

std::string duration_text(const Duration& duration) {
  std::string number = number_text(duration.value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  switch (duration.unit) {
    case Duration::Unit::steps:
      return number + " steps";
    case Duration::Unit::tokens:
      return number + " tokens";
    case Duration::Unit::percent:
      return number + "%";
    case Duration::Unit::epochs:
      return number + " epochs";
    case Duration::Unit::seconds:
      break;
  }
  return number + " s";
}

std::string digits_of(const std::string& word) {
  std::string digits;
  for (const char c : word)
    if (c >= '0' && c <= '9') digits += c;
  return digits;
}

/// The only choice that begins with `word`: gpt2 for gpt. None if several do, or for one letter.
std::optional<std::string> completed(const std::string& word,
                                     const std::vector<std::string>& choices) {
  const auto begins = [&](const std::string& choice) { return choice.starts_with(word); };
  if (word.size() < 2 || std::ranges::count_if(choices, begins) != 1) return std::nullopt;
  return *std::ranges::find_if(choices, begins);
}

/// The choice that a misspelt word was meant to be; none if it is more likely another word, as int4
/// is not int8.
std::optional<std::string> near_choice(const std::string& word,
                                       const std::vector<std::string>& choices) {
  if (auto whole = completed(word, choices)) return whole;
  auto found = misspelt(word, choices);
  return found && digits_of(word) == digits_of(*found) ? found : std::nullopt;
}

}  // namespace

Error refusal(const Stated& stated, const std::string& expected, const std::string& suggestion) {
  return usage_error(stated.where, expected, describe(stated.value), suggestion);
}

std::string grouped(std::int64_t integer) { return digit_groups(integer, '_'); }

std::string IntegerRange::in_words() const {
  if (most == std::numeric_limits<std::int64_t>::max())
    return "an integer of at least " + grouped(least);
  return "an integer from " + grouped(least) + " to " + grouped(most);
}

std::string NumberRange::in_words() const {
  if (std::isinf(most))
    return std::string("a number ") + (least_excluded ? "above " : "of at least ") +
           number_text(least);
  return std::string("a number in ") + (least_excluded ? "(" : "[") + number_text(least) + ", " +
         number_text(most) + (most_excluded ? ")" : "]");
}

bool NumberRange::holds(double value) const {
  const bool above = least_excluded ? value > least : value >= least;
  const bool below = most_excluded ? value < most : value <= most;
  return std::isfinite(value) && above && below;
}

std::string DurationRule::in_words() const {
  if (only_time) return "a time above 0 such as \"90 s\" or \"10 min\"";
  std::string text = zero_allowed ? "a duration" : "a duration above 0";
  text += " such as 200, \"200 steps\", \"10 M tokens\", \"1%\", \"3 epochs\"";
  return time_allowed ? text + " or \"10 min\"" : text + ", not a time";
}

std::int64_t read_integer(const Stated& stated, const std::string& expected,
                          const IntegerRange& range) {
  const auto* const plain = stated.value.as<std::int64_t>();
  const auto integer = plain != nullptr ? std::optional(*plain) : integer_with_prefix(stated.value);
  if (!integer) throw refusal(stated, expected, advice_for_integer(stated.value, range));
  if (!range.holds(*integer)) throw refusal(stated, expected, value_in_range);
  return *integer;
}

double read_number(const Stated& stated, const std::string& expected, const NumberRange& range) {
  const auto number = stated.value.number();
  if (!number) throw refusal(stated, expected, advice_for_number(stated.value, range));
  if (!range.holds(*number)) throw refusal(stated, expected, value_in_range);
  return *number;
}

bool read_boolean(const Stated& stated, const std::string& expected) {
  if (const auto* flag = stated.value.as<bool>()) return *flag;
  throw refusal(stated, expected, "true or false, without quotes");
}

std::string read_string(const Stated& stated, const std::string& expected) {
  if (const auto* text = stated.value.as<std::string>()) return *text;
  if (stated.bare && !stated.value.as<Value::Array>()) return *stated.bare;
  throw refusal(stated, expected, "a text in quotes");
}

std::vector<std::string> read_strings(const Stated& stated, const std::string& expected) {
  const auto* array = stated.value.as<Value::Array>();
  if (!array) return {read_string(stated, expected)};
  std::vector<std::string> texts;
  for (const Value& element : *array) {
    const auto* text = element.as<std::string>();
    if (!text) throw refusal(stated, expected, "texts in quotes");
    texts.push_back(*text);
  }
  return texts;
}

Duration read_duration(const Stated& stated, const std::string& expected,
                       const DurationRule& rule) {
  Duration duration;
  if (const auto number = stated.value.number()) {
    duration.value = *number;
  } else if (const auto* text = stated.value.as<std::string>()) {
    const auto parsed = try_parse_duration(*text);
    if (!parsed) throw refusal(stated, expected, "a number followed by one of these units");
    duration = *parsed;
  } else {
    throw refusal(stated, expected, "a number of steps");
  }
  const bool whole_steps =
      duration.unit != Duration::Unit::steps || duration.value == std::floor(duration.value);
  const bool fits = std::isfinite(duration.value) && duration.value < 0x1p53 && whole_steps &&
                    (rule.zero_allowed ? duration.value >= 0 : duration.value > 0);
  if (rule.only_time && duration.unit != Duration::Unit::seconds)
    throw refusal(stated, expected, "a number followed by a unit of time");
  if (!fits)
    throw refusal(stated, expected, whole_steps ? value_in_range : "a whole number of steps");
  if (duration.unit == Duration::Unit::seconds && !rule.time_allowed)
    throw refusal(stated, expected, "a number of steps");
  if (duration.unit == Duration::Unit::percent && duration.value > 100)
    throw refusal(stated, expected, "at most \"100%\"");
  return duration;
}

std::string choice_in_words(const std::vector<std::string>& choices,
                            const std::vector<Refused>& refused) {
  std::vector<std::string> quoted;
  quoted.reserve(choices.size());
  for (const std::string& choice : choices) quoted.push_back(to_toml(Value{choice}));
  std::string text = joined_words(quoted, " or ");
  std::vector<std::string> later;
  for (const Refused& value : refused)
    if (value.is_listed) later.push_back(value.value);
  if (!later.empty()) text += " (not in this version: " + joined_words(later, ", ") + ")";
  return text;
}

std::string read_choice(const Stated& stated, const std::string& expected,
                        const std::vector<std::string>& choices,
                        const std::vector<Refused>& refused, Synonyms synonyms) {
  std::string text;
  if (stated.value.as<std::string>() || stated.bare) text = read_string(stated, expected);
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  for (const Refused& value : refused)
    if (value.value == text)
      throw usage_error(stated.where, choice_in_words(choices, {}),
                        describe(stated.value) + ", which is " + value.reason,
                        value.instead.empty() ? to_toml(Value{choices.front()}) : value.instead);
  if (synonyms)
    if (const auto ours = synonyms(stated.value)) throw refusal(stated, expected, to_toml(*ours));
  const auto near = near_choice(normalised(text), choices);
  throw refusal(stated, expected, near ? to_toml(Value{*near}) : "one of these values");
}

bool is_word(const Stated& stated, const std::string& word) {
  const auto* text = stated.value.as<std::string>();
  return text && *text == word;
}

Value value_of(bool value) { return {value}; }
Value value_of(std::int64_t value) { return {value}; }
Value value_of(std::uint64_t value) { return {static_cast<std::int64_t>(value)}; }
Value value_of(double value) { return {value}; }
Value value_of(const std::string& value) { return {value}; }
Value value_of(const std::vector<std::string>& value) {
  Value::Array array;
  for (const std::string& text : value) array.push_back({text});
  return {std::move(array)};
}
Value value_of(const Duration& value) { return {duration_text(value)}; }
Value value_of(const data::Interval& interval) {
  return Value{Value::Array{Value{interval.least}, Value{interval.most}}};
}

Key later_key(KeyName name, const std::vector<Value>& harmless) {
  std::vector<std::string> texts;
  texts.reserve(harmless.size());
  for (const Value& value : harmless) texts.push_back(to_toml(value));
  const std::string expected =
      harmless.empty() ? "nothing, as the key is not in this version"
                       : joined_words(texts, " or ") + ", the rest is not in this version";
  auto set = [=](const Stated& stated, Config&) {
    const auto same = [&](const Value& value) {
      const auto* text = value.as<std::string>();
      return equal(value, stated.value) || (text && stated.bare && *stated.bare == *text);
    };
    if (std::none_of(harmless.begin(), harmless.end(), same))
      throw refusal(stated, expected, "leaving the key out");
  };
  auto get = [](const Config&) { return std::optional<Value>(); };
  Key key{std::move(name), expected, std::move(set), std::move(get)};
  key.in_this_version = false;
  return key;
}

Key resumable(Key key) {
  key.may_change_on_resume = true;
  return key;
}

Key read_where(std::string with, std::string reason, std::string decider,
               std::function<bool(const Config&)> holds, Key key) {
  key.read_by.push_back({std::move(with), std::move(reason), std::move(decider), std::move(holds)});
  return key;
}

Key read_with(const std::string& decider, const std::vector<std::string>& values, Key key) {
  auto holds = [decider, values](const Config& config) {
    const std::optional<Value> value = find_key(decider)->get(config);
    const auto* const text = value ? value->as<std::string>() : nullptr;
    return text && std::find(values.begin(), values.end(), *text) != values.end();
  };
  return read_where(decider + " = " + choice_in_words(values, {}), "", decider, std::move(holds),
                    std::move(key));
}

}  // namespace accrue::train
