#include "observe/compare/allowance.h"

#include <charconv>
#include <cmath>
#include <string>

#include "accrue/core/error.h"

namespace accrue::observe {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// The number in all of `text`; none if it is not a finite number, or below 0.
std::optional<double> whole_number(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error == std::errc{} && stop == end && std::isfinite(number);
  return is_number && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

Allowance parse_allowance(std::string_view text, std::string_view option) {
  if (text == "off") return std::nullopt;
  std::string_view digits = trimmed(text);
  const bool is_percent = digits.ends_with('%');
  if (is_percent) digits = trimmed(digits.substr(0, digits.size() - 1));
  const std::optional<double> number = whole_number(digits);
  if (number && is_percent) return *number / 100;
  if (number && *number < 1) return number;
  throw usage_error("compare " + std::string(option),
                    "a share that may be lost, such as 0.5% or 0.005, or off", text,
                    std::string(option) + "=" + (number ? std::string(digits) : "5") + "%");
}

}  // namespace accrue::observe
