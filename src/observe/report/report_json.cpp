#include "observe/report/report_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "accrue/version.h"

namespace accrue::observe {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::vector<double>;

/// Integers, and rounded numbers with as many digits as a chart can show, in few characters.
double rounded(double value) {
  constexpr int significant_digits = 6;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::scientific, significant_digits - 1)
                       .ptr;
  std::from_chars(text.data(), end, value);
  return value;
}

Json number(double value) {
  constexpr double largest_exact_integer = 9007199254740992.0;
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) < largest_exact_integer && value == std::trunc(value))
    return static_cast<std::int64_t>(value);
  return value;
}

/// Keeps every digit of cumulative counts, and times to the hundredth of a second.
Json exact_array(const Numbers& values) {
  constexpr double hundredths = 100;
  Json array = Json::array();
  for (const double value : values)
    array.push_back(number(std::round(value * hundredths) / hundredths));
  return array;
}

Json rounded_array(const Numbers& values) {
  Json array = Json::array();
  for (const double value : values)
    array.push_back(std::isfinite(value) ? number(rounded(value)) : Json());
  return array;
}

bool is_constant(const Numbers& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](double value) { return value == values.front(); });
}

Json column_json(const ThinColumn& column) {
  const bool has_extremes = !column.lowest.empty() && column.lowest != column.highest;
  if (!has_extremes && is_constant(column.mean)) return number(column.mean.front());
  if (!has_extremes) return rounded_array(column.mean);
  return {{"mean", rounded_array(column.mean)},
          {"lowest", rounded_array(column.lowest)},
          {"highest", rounded_array(column.highest)}};
}

Json table_json(const ThinTable& table) {
  Json out{{"width", table.width}, {"steps", table.steps}};
  if (!table.tokens.empty()) out["tokens"] = exact_array(table.tokens);
  if (!table.samples.empty()) out["samples"] = exact_array(table.samples);
  if (!table.seconds.empty()) out["seconds"] = exact_array(table.seconds);
  out["columns"] = Json::object();
  for (const auto& [name, column] : table.columns) out["columns"][name] = column_json(column);
  out["last"] = Json::object();
  for (const auto& [name, value] : table.last) out["last"][name] = number(value);
  return out;
}

Json figures_json(const std::vector<Figure>& figures) {
  Json out = Json::array();
  for (const Figure& figure : figures) {
    Json one{{"id", figure.id}, {"label", figure.label}, {"text", figure.text}};
    if (!figure.detail.empty()) one["detail"] = figure.detail;
    if (figure.part) one["part"] = number(rounded(*figure.part));
    out.push_back(std::move(one));
  }
  return out;
}

Json events_json(const ShownEvents& shown) {
  Json out = Json::array();
  for (const EventPoint& event : shown.events)
    out.push_back({event.step, number(std::round(event.time)), event.name, event.reason});
  return out;
}

Json choice_json(const PlanChoice& choice) {
  Json out{{"micro_batch", choice.micro_batch}, {"recompute", choice.recompute}};
  if (choice.peak_bytes) out["bytes"] = number(*choice.peak_bytes);
  if (choice.seconds_per_step) out["seconds"] = number(rounded(*choice.seconds_per_step));
  if (choice.is_chosen) out["chosen"] = true;
  if (!choice.within_budget) out["beyond"] = true;
  return out;
}

Json plan_json(const PlanDescription& plan) {
  Json out{{"reason", plan.reason}, {"choices", Json::array()}};
  for (const PlanChoice& choice : plan.choices) out["choices"].push_back(choice_json(choice));
  if (plan.budget_bytes) out["budget"] = number(*plan.budget_bytes);
  if (plan.predicted_peak_bytes) out["predicted"] = number(*plan.predicted_peak_bytes);
  if (plan.measured_peak_bytes) out["measured"] = number(*plan.measured_peak_bytes);
  return out;
}

Json run_json(const RunView& run) {
  Json out{{"name", run.name},
           {"folder", run.folder},
           {"state", run.state},
           {"model", run.description.model},
           {"batch", run.description.batch},
           {"figures", figures_json(run.figures)},
           {"training", table_json(run.training)},
           {"evaluations", table_json(run.evaluations)},
           {"events", events_json(run.events)},
           {"events_left_out", run.events.left_out},
           {"environment", run.description.environment},
           {"config", run.config},
           {"remarks", run.remarks}};
  if (run.description.plan) out["plan"] = plan_json(*run.description.plan);
  return out;
}

Json chart_json(const Chart& chart) {
  Json out{{"id", chart.id},
           {"title", chart.title},
           {"note", chart.note},
           {"section", section_words.of(chart.section)},
           {"unit", unit_words.of(chart.unit)},
           {"drawing", drawing_words.of(chart.drawing)},
           {"kept", kept_words.of(chart.kept)},
           {"smooth", chart.smooth},
           {"from_zero", chart.from_zero},
           {"wide", chart.wide},
           {"series", Json::array()}};
  for (const ChartSeries& series : chart.series)
    out["series"].push_back(
        {{"column", series.column}, {"label", series.label}, {"mark", mark_words.of(series.mark)}});
  return out;
}

Json difference_json(const Difference& difference) {
  Json out{{"key", difference.key}, {"values", Json::array()}};
  for (const auto& value : difference.values)
    out["values"].push_back(value ? Json(*value) : Json());
  return out;
}

}  // namespace

std::string to_json(const ReportData& data) {
  Json out{{"version", version}, {"remarks", data.remarks}};
  for (const char* list : {"charts", "runs", "differences"}) out[list] = Json::array();
  for (const Chart& chart : data.charts) out["charts"].push_back(chart_json(chart));
  for (const RunView& run : data.runs) out["runs"].push_back(run_json(run));
  for (const Difference& one : data.differences) out["differences"].push_back(difference_json(one));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace accrue::observe
