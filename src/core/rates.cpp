#include "core/rates.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <span>
#include <system_error>

#include "accrue/core/error.h"

namespace accrue {
namespace {

struct RateUnit {
  std::string_view name;
  double factor;
};

constexpr double kBit = 1.0 / 8;
constexpr auto byte_rate_units = std::to_array<RateUnit>({{"bit/s", kBit},
                                                          {"kbit/s", 1e3 * kBit},
                                                          {"Mbit/s", 1e6 * kBit},
                                                          {"Gbit/s", 1e9 * kBit},
                                                          {"Tbit/s", 1e12 * kBit},
                                                          {"B/s", 1},
                                                          {"kB/s", 1e3},
                                                          {"MB/s", 1e6},
                                                          {"GB/s", 1e9},
                                                          {"TB/s", 1e12},
                                                          {"KiB/s", 0x1p10},
                                                          {"MiB/s", 0x1p20},
                                                          {"GiB/s", 0x1p30},
                                                          {"TiB/s", 0x1p40}});
/// In front of "FLOP/s", which may be left out.
constexpr auto operation_prefixes =
    std::to_array<RateUnit>({{"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}});

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// The number at the begin of `text` times the factor of the unit that is the rest; none if one of
/// them is missing or the rate is not above 0.
std::optional<double> rate_in(std::string_view text, std::span<const RateUnit> units) {
  text = without_spaces(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const std::string_view unit = without_spaces(text);
  for (const auto& [name, factor] : units)
    if (unit == name) {
      const double rate = number * factor;
      return std::isfinite(rate) && rate > 0 ? std::optional(rate) : std::nullopt;
    }
  return std::nullopt;
}

/// With a prefix for thousands: 3.125e9 and "B/s" -> "3.12 GB/s".
std::string in_prefixed(double value, const char* unit) {
  static constexpr std::array<const char*, 7> prefixes{"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < prefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3g %s%s", value, prefixes[prefix], unit);
  return buffer.data();
}

std::string as_received(std::string_view text) { return "\"" + std::string(text) + "\""; }

}  // namespace

double parse_byte_rate(std::string_view text, std::string_view what) {
  if (const auto rate = rate_in(text, byte_rate_units)) return *rate;
  throw usage_error(what, "a rate above 0 with its unit, such as 25Gbit/s or 3GB/s",
                    as_received(text),
                    "a number followed by Mbit/s, Gbit/s (bits), MB/s, GB/s or GiB/s (bytes)");
}

double parse_operation_rate(std::string_view text, std::string_view what) {
  text = without_spaces(text);
  std::string_view number = text;
  if (number.ends_with("FLOP/s")) number.remove_suffix(std::string_view("FLOP/s").size());
  if (const auto rate = rate_in(number, operation_prefixes)) return *rate;
  throw usage_error(what, "operations a second above 0 with their unit, such as 400T or 400TFLOP/s",
                    as_received(text), "a number followed by G, T or P");
}

std::string format_byte_rate(double bytes_per_second) {
  return in_prefixed(bytes_per_second, "B/s");
}

std::string format_operation_rate(double operations_per_second) {
  return in_prefixed(operations_per_second, "FLOP/s");
}

}  // namespace accrue
