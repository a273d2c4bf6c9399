#include "observe/report/charts.h"

#include <algorithm>

#include "observe/report/chart_catalogue.h"

namespace accrue::observe {
namespace {

constexpr std::string_view any_ending = ".*";

/// The series for a series of the catalogue: itself if its column exists, or one for each column
/// that it covers.
std::vector<ChartSeries> present_series(const ChartSeries& series,
                                        const std::set<std::string>& columns) {
  if (!series.column.ends_with(any_ending))
    return columns.contains(series.column) ? std::vector{series} : std::vector<ChartSeries>{};
  const std::string prefix = series.column.substr(0, series.column.size() - 1);
  std::vector<ChartSeries> present;
  for (auto column = columns.lower_bound(prefix);
       column != columns.end() && column->starts_with(prefix); ++column)
    present.push_back({*column, column->substr(prefix.size()), series.mark});
  return present;
}

/// Whether a chart shows anything: a budget alone is not enough.
bool has_substance(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(),
                     [](const ChartSeries& series) { return series.mark != Mark::dashed; });
}

bool is_known(const std::string& column) {
  const auto& untold = columns_without_chart();
  if (std::find(untold.begin(), untold.end(), column) != untold.end()) return true;
  for (const Chart& chart : chart_catalogue())
    for (const ChartSeries& series : chart.series)
      if (!present_series(series, {column}).empty()) return true;
  return false;
}

Chart chart_of_unknown(const std::string& column) {
  return {.id = "other." + column, .title = column, .series = {{column, column}}};
}

}  // namespace

std::vector<Chart> charts_of(const std::set<std::string>& columns) {
  std::vector<Chart> charts;
  for (const Chart& entry : chart_catalogue()) {
    Chart chart = entry;
    chart.series.clear();
    for (const ChartSeries& series : entry.series)
      for (ChartSeries& one : present_series(series, columns))
        chart.series.push_back(std::move(one));
    if (has_substance(chart)) charts.push_back(std::move(chart));
  }
  for (const std::string& column : columns)
    if (!is_known(column)) charts.push_back(chart_of_unknown(column));
  return charts;
}

std::map<std::string, Kept> kept_columns(const std::vector<Chart>& charts) {
  std::map<std::string, Kept> kept;
  for (const Chart& chart : charts)
    for (const ChartSeries& series : chart.series) {
      const auto [column, is_new] = kept.try_emplace(series.column, chart.kept);
      if (!is_new && column->second != chart.kept) column->second = Kept::extremes;
    }
  return kept;
}

}  // namespace accrue::observe
