#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/core/enum_words.h"
#include "accrue/core/error.h"
#include "train/config/key.h"

/// Functions that make the table's rows. `access` is a generic lambda `(auto& config) -> auto&`
/// that returns the member.
namespace accrue::train {

/// Bounds far above any real run, such that products of a few of them stay within 64 bits.
namespace most {
inline constexpr std::int64_t samples = 1'000'000'000;     ///< of a batch
inline constexpr std::int64_t tokens = 1'000'000'000'000;  ///< of a batch
inline constexpr std::int64_t steps = 1'000'000'000'000;   ///< of a run
inline constexpr std::int64_t run_tokens = 1'000'000'000'000'000;
inline constexpr std::int64_t count = 1'000'000;  ///< of things kept, steps taken, a width
inline constexpr std::int64_t layers = 10'000;
inline constexpr std::int64_t context = 100'000'000;
inline constexpr std::int64_t vocab = 1'000'000'000;
inline constexpr std::int64_t image_side = 16'384;  ///< pixels
inline constexpr std::int64_t loss_scale = std::int64_t{1} << 24;
inline constexpr double epochs = 1e9;
}  // namespace most

/// 1000000 -> "1_000_000", as TOML accepts it and people read it.
std::string grouped(std::int64_t integer);

struct IntegerRange {
  std::int64_t least;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string in_words() const;
  bool holds(std::int64_t value) const { return value >= least && value <= most; }
};

struct NumberRange {
  double least;
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false;
  bool most_excluded = false;
  std::string in_words() const;
  bool holds(double value) const;
};

struct DurationRule {
  bool zero_allowed = false;
  bool time_allowed = true;
  bool only_time = false;
  std::string in_words() const;
};

/// A value that belongs to a later version, or to none, with the reason if there is a special
/// one.
struct Refused {
  std::string value;
  std::string reason = "not in this version";
  std::string instead = {};  ///< what to try; empty: the first of the values there are
  bool is_listed = true;     ///< whether errors list it among the values
};

/// The value here for a word of another system; none if there is none.
using Synonyms = std::optional<Value> (*)(const Value& stated);

/// A usage Error with what the key takes and what was stated.
Error refusal(const Stated& stated, const std::string& expected, const std::string& suggestion);

std::int64_t read_integer(const Stated& stated, const std::string& expected,
                          const IntegerRange& range);
double read_number(const Stated& stated, const std::string& expected, const NumberRange& range);
bool read_boolean(const Stated& stated, const std::string& expected);
std::string read_string(const Stated& stated, const std::string& expected);
std::vector<std::string> read_strings(const Stated& stated, const std::string& expected);
Duration read_duration(const Stated& stated, const std::string& expected, const DurationRule& rule);
std::string read_choice(const Stated& stated, const std::string& expected,
                        const std::vector<std::string>& choices,
                        const std::vector<Refused>& refused, Synonyms synonyms);
/// Whether the value is this word, which means "not stated".
bool is_word(const Stated& stated, const std::string& word);

std::string choice_in_words(const std::vector<std::string>& choices,
                            const std::vector<Refused>& refused);

template <typename Enum, std::size_t N>
std::vector<std::string> texts_of(const EnumWords<Enum, N>& words) {
  const std::array<std::string_view, N> all = words.words();
  return {all.begin(), all.end()};
}

Value value_of(bool value);
Value value_of(std::int64_t value);
Value value_of(std::uint64_t value);
Value value_of(double value);
Value value_of(const std::string& value);
Value value_of(const std::vector<std::string>& value);
Value value_of(const Duration& value);
Value value_of(const data::Interval& value);

template <typename T>
std::optional<Value> stated_value(const T& member) {
  return value_of(member);
}
template <typename T>
std::optional<Value> stated_value(const std::optional<T>& member) {
  return member ? std::optional(value_of(*member)) : std::nullopt;
}

/// `read` makes the member from the stated value, `write` the value from the member.
template <typename Access, typename Read, typename Write>
Key make_key(KeyName name, std::string expected, Access access, Read read, Write write) {
  auto set = [=](const Stated& stated, Config& config) {
    using Member = std::remove_reference_t<decltype(access(config))>;
    access(config) = static_cast<Member>(read(stated, expected));
  };
  auto get = [=](const Config& config) { return std::optional<Value>(write(access(config))); };
  return {std::move(name), expected, std::move(set), std::move(get)};
}
template <typename Access, typename Read>
Key make_key(KeyName name, std::string expected, Access access, Read read) {
  return make_key(std::move(name), std::move(expected), access, read,
                  [](const auto& member) { return stated_value(member); });
}

template <typename Access>
Key integer_key(KeyName name, IntegerRange range, Access access) {
  return make_key(std::move(name), range.in_words(), access,
                  [=](const Stated& stated, const std::string& expected) {
                    return read_integer(stated, expected, range);
                  });
}

/// An optional member; its absence is written as `word` ("auto", "all").
template <typename Access>
Key integer_or_word_key(KeyName name, IntegerRange range, const std::string& word, Access access) {
  return make_key(
      std::move(name), range.in_words() + " or \"" + word + "\"", access,
      [=](const Stated& stated, const std::string& expected) {
        return is_word(stated, word) ? std::optional<std::int64_t>()
                                     : std::optional(read_integer(stated, expected, range));
      },
      [=](const auto& member) { return member ? value_of(*member) : value_of(word); });
}

template <typename Access>
Key number_key(KeyName name, NumberRange range, Access access) {
  return make_key(std::move(name), range.in_words(), access,
                  [=](const Stated& stated, const std::string& expected) {
                    return read_number(stated, expected, range);
                  });
}

template <typename Access>
Key boolean_key(KeyName name, Access access) {
  return make_key(std::move(name), "true or false", access, read_boolean);
}

template <typename Access>
Key string_key(KeyName name, std::string expected, Access access) {
  return make_key(std::move(name), std::move(expected), access, read_string);
}

template <typename Access>
Key strings_key(KeyName name, std::string expected, Access access) {
  return make_key(std::move(name), std::move(expected), access, read_strings);
}

template <typename Access>
Key duration_key(KeyName name, DurationRule rule, Access access) {
  return make_key(std::move(name), rule.in_words(), access,
                  [=](const Stated& stated, const std::string& expected) {
                    return read_duration(stated, expected, rule);
                  });
}

/// An optional member; its absence is written as `word` ("none").
template <typename Access>
Key duration_or_word_key(KeyName name, DurationRule rule, const std::string& word, Access access) {
  return make_key(
      std::move(name), rule.in_words() + " or \"" + word + "\"", access,
      [=](const Stated& stated, const std::string& expected) {
        return is_word(stated, word) ? std::optional<Duration>()
                                     : std::optional(read_duration(stated, expected, rule));
      },
      [=](const auto& member) { return member ? value_of(*member) : value_of(word); });
}

template <typename Enum, std::size_t N, typename Access>
Key choice_key(KeyName name, const EnumWords<Enum, N>& words, const std::vector<Refused>& refused,
               Access access, Synonyms synonyms = nullptr) {
  const std::vector<std::string> choices = texts_of(words);
  return make_key(
      std::move(name), choice_in_words(choices, refused), access,
      [=](const Stated& stated, const std::string& expected) {
        return *words.find(read_choice(stated, expected, choices, refused, synonyms));
      },
      [=](Enum member) { return value_of(std::string(words.of(member))); });
}

/// An optional member; its absence is written as "auto", the first of the choices.
template <typename Enum, std::size_t N, typename Access>
Key choice_or_auto_key(KeyName name, const EnumWords<Enum, N>& words,
                       const std::vector<Refused>& refused, Access access) {
  const std::string automatic = "auto";
  std::vector<std::string> choices = texts_of(words);
  choices.insert(choices.begin(), automatic);
  return make_key(
      std::move(name), choice_in_words(choices, refused), access,
      [=](const Stated& stated, const std::string& expected) {
        return words.find(read_choice(stated, expected, choices, refused, nullptr));
      },
      [=](const std::optional<Enum>& member) {
        return value_of(member ? std::string(words.of(*member)) : automatic);
      });
}

/// model.kind, whose "auto" means the kind in model.from, or gpt2.
Key model_kind_key(KeyName name);

/// data.train, file patterns or sources with weights.
Key sources_key(KeyName name);

/// loss.heads, a table for each loss of a TorchScript module.
Key heads_key(KeyName name);

/// run.limits, a table for each limit.
Key limits_key(KeyName name);

/// batch.schedule, a table for each stage.
Key batch_schedule_key(KeyName name);

/// data.tokenizer, a word or a path.
Key tokenizer_key(KeyName name);

/// optim.betas, one array for two members.
Key betas_key(KeyName name);

/// data.augment.crop, which is none or two shares of an area, and data.augment.ratio, two
/// proportions: the smallest and the largest value that is drawn.
Key crop_key(KeyName name);
Key ratio_key(KeyName name);

/// data.image, which is auto, a side, or height and width.
Key image_size_key(KeyName name);

/// memory.budget, which is none, auto or bytes.
Key budget_key(KeyName name);

/// memory.offload_budget, which is none or bytes.
Key offload_budget_key(KeyName name);

/// A key of a later version. It takes only `harmless` values, which request nothing.
Key later_key(KeyName name, const std::vector<Value>& harmless);

Key resumable(Key key);
/// `key`, read only if its other conditions hold and the choice `decider` has one of `values`.
Key read_with(const std::string& decider, const std::vector<std::string>& values, Key key);
/// `key`, read only if `holds`, for a condition that no single value of `decider` expresses; `with`
/// and `reason` are for people.
Key read_where(std::string with, std::string reason, std::string decider,
               std::function<bool(const Config&)> holds, Key key);

}  // namespace accrue::train
