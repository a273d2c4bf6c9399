#pragma once

#include <optional>
#include <string_view>

namespace accrue::observe {

/// By how much a metric may be worse than its baseline, as a share of the baseline; none: the
/// metric is not compared.
using Allowance = std::optional<double>;

/// "0.5%" or "0.005" -> 0.005, "off" -> none. Throws a usage Error naming `option` if the text
/// is none of these; a number of 1 and more without "%" is none, as it may be meant in percent.
Allowance parse_allowance(std::string_view text, std::string_view option);

}  // namespace accrue::observe
