#pragma once

#include <vector>

#include "observe/report/charts.h"

namespace accrue::observe {

/// All charts that a report can have, in the order of the page. A series whose column ends in ".*"
/// means all columns with that beginning, each named after the rest.
const std::vector<Chart>& chart_catalogue();

/// Columns that are shown elsewhere (on axes, in other columns) and have no chart.
const std::vector<std::string_view>& columns_without_chart();

}  // namespace accrue::observe
