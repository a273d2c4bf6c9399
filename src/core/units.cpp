#include "accrue/core/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "accrue/core/error.h"

namespace accrue {
namespace {

struct NumberAndUnit {
  double number;
  std::string unit;
};

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<NumberAndUnit> split_number(std::string_view text) {
  text = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return NumberAndUnit{number, std::string(trim(text))};
}

std::string print_number(double number) {
  std::array<char, 64> digits{};
  std::snprintf(digits.data(), digits.size(), "%.15g", number);
  return digits.data();
}

/// The most likely meaning of a number of bytes without a unit.
std::string with_likely_unit(double number) {
  constexpr double kMostGibibytes = 65, kMostMebibytes = 1 << 20;
  if (number == 0) return "6GiB";
  return print_number(number) + (number < kMostGibibytes   ? "GiB"
                                 : number < kMostMebibytes ? "MiB"
                                                           : " B");
}

/// "6g" -> "6GiB", "512mb" -> "512MiB": the unit that was most likely meant; nothing if the text
/// resembles no unit.
std::optional<std::string> likely_size(const NumberAndUnit& parts) {
  std::string unit = parts.unit;
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* likely : {"KiB", "MiB", "GiB", "TiB"}) {
    const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(likely[0])));
    for (const char* ending : {"", "b", "i", "ib"})
      if (unit == letter + std::string(ending)) return print_number(parts.number) + likely;
  }
  return std::nullopt;
}

std::string print(const char* format, double value, const char* unit) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value, unit);
  return buffer.data();
}

/// A number of bytes in a unit for people, with the decimals of three significant digits.
struct Scaled {
  double value;
  const char* unit;
  int decimals;
};

Scaled scaled_bytes(double bytes) {
  static constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1000 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return {bytes, units[unit], unit == 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2};
}

std::string print_bytes(double value, const Scaled& as) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f %s", as.decimals, value, as.unit);
  return buffer.data();
}

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view what) {
  static constexpr std::array<std::pair<std::string_view, double>, 9> units{{{"B", 1.0},
                                                                             {"KiB", 0x1p10},
                                                                             {"MiB", 0x1p20},
                                                                             {"GiB", 0x1p30},
                                                                             {"TiB", 0x1p40},
                                                                             {"kB", 1e3},
                                                                             {"MB", 1e6},
                                                                             {"GB", 1e9},
                                                                             {"TB", 1e12}}};
  const std::optional<NumberAndUnit> parts = split_number(text);
  if (parts)
    for (const auto& [name, factor] : units)
      if (parts->unit == name && parts->number * factor < 0x1p62)
        return Bytes{static_cast<std::int64_t>(std::llround(parts->number * factor))};
  const bool lacks_unit = parts && parts->unit.empty();
  const std::optional<std::string> likely = lacks_unit ? with_likely_unit(parts->number)
                                            : parts    ? likely_size(*parts)
                                                       : std::nullopt;
  throw usage_error(
      what, "a size with its unit, such as \"6GiB\" or \"512MiB\"",
      "\"" + std::string(text) + "\"" + (lacks_unit ? ", which has none" : ""),
      likely ? "\"" + *likely + "\"" : "a number followed by KiB, MiB, GiB, kB, MB or GB");
}

std::string format_bytes(std::int64_t bytes) {
  const Scaled scaled = scaled_bytes(static_cast<double>(bytes));
  return print_bytes(scaled.value, scaled);
}

std::string format_bytes_rounded_up(std::int64_t bytes) {
  const Scaled scaled = scaled_bytes(static_cast<double>(bytes));
  const double steps = std::pow(10, scaled.decimals);
  return print_bytes(std::ceil(scaled.value * steps) / steps, scaled);
}

std::string format_count(double count) {
  static constexpr std::array<const char*, 5> units{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (std::abs(count) >= 1000 && unit + 1 < units.size()) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0) return print("%.0f%s", count, "");
  return print(count >= 100 ? "%.0f %s" : count >= 10 ? "%.1f %s" : "%.2f %s", count, units[unit]);
}

std::string format_duration(double seconds) {
  if (seconds < 10) return print("%.1f%s", seconds, "s");
  const auto total = static_cast<long long>(std::llround(seconds));
  std::array<char, 64> buffer{};
  if (total < 60) {
    std::snprintf(buffer.data(), buffer.size(), "%llds", total);
  } else if (total < 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%lldm%02llds", total / 60, total % 60);
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%lldh%02lldm", total / 3600, total % 3600 / 60);
  }
  return buffer.data();
}

std::string format_seconds(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds < kMinute) return print("%.3g %s", std::round(seconds * 100) / 100, "s");
  if (seconds < kHour) return print("%.3g %s", seconds / kMinute, "min");
  return print("%.3g %s", seconds / kHour, "h");
}

std::optional<Duration> try_parse_duration(std::string_view text) {
  using Unit = Duration::Unit;
  struct Name {
    std::string_view text;
    Unit unit;
    double factor;
  };
  static constexpr std::array<Name, 22> names{{
      {"", Unit::steps, 1},
      {"steps", Unit::steps, 1},
      {"step", Unit::steps, 1},
      {"tokens", Unit::tokens, 1},
      {"k tokens", Unit::tokens, 1e3},
      {"M tokens", Unit::tokens, 1e6},
      {"G tokens", Unit::tokens, 1e9},
      {"B tokens", Unit::tokens, 1e9},
      {"%", Unit::percent, 1},
      {"epochs", Unit::epochs, 1},
      {"epoch", Unit::epochs, 1},
      {"s", Unit::seconds, 1},
      {"sec", Unit::seconds, 1},
      {"seconds", Unit::seconds, 1},
      {"min", Unit::seconds, 60},
      {"minutes", Unit::seconds, 60},
      {"minute", Unit::seconds, 60},
      {"h", Unit::seconds, 3600},
      {"hours", Unit::seconds, 3600},
      {"hour", Unit::seconds, 3600},
      {"second", Unit::seconds, 1},
      {"token", Unit::tokens, 1},
  }};
  if (const auto parts = split_number(text))
    for (const Name& name : names)
      if (parts->unit == name.text) return Duration{parts->number * name.factor, name.unit};
  return std::nullopt;
}

Duration parse_duration(std::string_view text, std::string_view what) {
  if (const auto duration = try_parse_duration(text)) return *duration;
  throw usage_error(what,
                    "a duration such as 200, \"200 steps\", \"10 M tokens\", \"1%\", \"3 epochs\" "
                    "or, where the clock makes sense, \"10 min\"",
                    "\"" + std::string(text) + "\"", "a number followed by one of these units");
}

std::int64_t to_steps(const Duration& duration, const Horizon& horizon, std::string_view what) {
  const auto rounded = [](double steps) { return static_cast<std::int64_t>(std::llround(steps)); };
  switch (duration.unit) {
    case Duration::Unit::steps:
      return rounded(duration.value);
    case Duration::Unit::percent:
      return rounded(duration.value / 100 * static_cast<double>(horizon.total_steps));
    case Duration::Unit::tokens:
      if (horizon.tokens_per_step > 0) return rounded(duration.value / horizon.tokens_per_step);
      break;
    case Duration::Unit::epochs:
      if (horizon.steps_per_epoch > 0) return rounded(duration.value * horizon.steps_per_epoch);
      break;
    case Duration::Unit::seconds:
      break;
  }
  throw usage_error(
      what, "a duration that counts steps, tokens, epochs or percent of the run",
      duration.unit == Duration::Unit::seconds ? "a time" : "a unit this run does not count",
      "a number of steps");
}

}  // namespace accrue
