#pragma once

#include <optional>
#include <string_view>

namespace accrue::observe {

/// How much worse a metric may be than its baseline, as a share of the baseline; none: the metric
/// is not compared.
using Allowance = std::optional<double>;

/// "0.5%" or "0.005" -> 0.005, "off" -> none. Throws a usage Error naming `option` for any other
/// text; also for a number of 1 and more without "%", as it may be meant in percent.
Allowance parse_allowance(std::string_view text, std::string_view option);

}  // namespace accrue::observe
