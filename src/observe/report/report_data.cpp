#include "observe/report/report_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "observe/history/run_result.h"
#include "observe/report/derived.h"

namespace accrue::observe {
namespace {

using Columns = std::map<std::string, std::vector<double>>;

constexpr std::size_t most_buckets = 2048, fewest_buckets = 64;
constexpr std::size_t most_events = 1000;

/// Whether a column of problems (counted in every step) has none.
bool is_all_quiet(const std::string& name, const std::vector<double>& column) {
  if (name != "retries" && name != "quarantined") return false;
  return std::none_of(column.begin(), column.end(), [](double value) { return value > 0; });
}

/// Row of the last step that is not after `step`; none if there is none.
std::optional<std::size_t> row_at(const std::vector<std::int64_t>& steps, std::int64_t step) {
  const auto after = std::upper_bound(steps.begin(), steps.end(), step);
  if (after == steps.begin()) return std::nullopt;
  return static_cast<std::size_t>(after - steps.begin() - 1);
}

/// Evaluations as a table with the steps' axes at these points.
StepTable table_of_evaluations(const RunHistory& run) {
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  StepTable table;
  Columns& columns = table.columns;
  for (const EvaluationPoint& evaluation : run.evaluations) {
    table.steps.push_back(evaluation.step);
    columns["eval_loss"].push_back(evaluation.loss);
    columns["eval_accuracy"].push_back(evaluation.accuracy.value_or(nothing));
    const auto row = row_at(run.table.steps, evaluation.step);
    for (const char* axis : {"tokens", "samples", "elapsed"})
      if (const auto* column = run.table.column(axis))
        columns[axis].push_back(row ? (*column)[*row] : 0);
  }
  return table;
}

/// A run's tables before they are thinned.
struct FullTables {
  StepTable training, evaluations;
};

void add_present(const StepTable& table, std::set<std::string>& present) {
  for (const auto& [name, column] : table.columns)
    if (has_value(column) && !is_all_quiet(name, column)) present.insert(name);
}

/// Charts need positions that do not decrease: one that is missing, or lies before its predecessor
/// (a clock that was set), is replaced by its predecessor.
std::vector<double> ascending(std::vector<double> places) {
  double reached = 0;
  for (double& place : places) {
    if (place > reached) reached = place;  // false for NaN
    place = reached;
  }
  return places;
}

std::vector<double> axis_of(const StepTable& table, const char* name, const Buckets& buckets) {
  const std::vector<double>* column = table.column(name);
  if (column == nullptr) return {};
  return last_of_buckets(ascending(*column), buckets);
}

/// Drops what a chart does not show of a column.
ThinColumn kept_of(ThinColumn thinned, Kept kept) {
  if (kept == Kept::highest) thinned.mean = thinned.highest;
  if (kept != Kept::extremes) thinned.lowest = thinned.highest = {};
  return thinned;
}

ThinTable thin_table(const StepTable& table, const std::map<std::string, Kept>& kept,
                     std::size_t buckets_at_most) {
  const Buckets buckets = bucket_steps(table.steps, buckets_at_most);
  ThinTable thinned{.width = buckets.width,
                    .steps = last_of_buckets(table.steps, buckets),
                    .tokens = axis_of(table, "tokens", buckets),
                    .samples = axis_of(table, "samples", buckets),
                    .seconds = axis_of(table, "elapsed", buckets)};
  for (const auto& [name, column] : table.columns) {
    const auto use = kept.find(name);
    if (use == kept.end() || !has_value(column)) continue;
    ThinColumn one = kept_of(thin(column, buckets), use->second);
    if (buckets.width == 1) one.lowest = one.highest = {};
    thinned.columns[name] = std::move(one);
    const std::optional<double> last = last_value(&column);
    if (last && std::isfinite(*last)) thinned.last[name] = *last;
  }
  return thinned;
}

std::size_t numbers_in(const ThinTable& table) {
  std::size_t numbers = 0;
  for (const auto& [name, column] : table.columns)
    numbers += column.mean.size() + column.lowest.size() + column.highest.size();
  return numbers;
}

std::size_t numbers_in(const std::vector<RunView>& runs) {
  std::size_t numbers = 0;
  for (const RunView& run : runs) numbers += numbers_in(run.training) + numbers_in(run.evaluations);
  return numbers;
}

/// How many ranks took the last step; "" if steps do not have it.
std::string ranks_of(const StepTable& table) {
  const std::vector<double>* world = table.column("world");
  if (world == nullptr || world->empty() || std::isnan(world->back())) return "";
  return std::to_string(std::llround(world->back()));
}

RunView view_of(const RunHistory& run) {
  RunView view{.name = run.name,
               .folder = run.root.string(),
               .state = std::string(run_state_words.of(run.state)),
               .description = description_of(run),
               .figures = key_figures(run),
               .events = choose_events(run.events, most_events),
               .config = flat_config(run),
               .remarks = run.remarks};
  if (const std::string ranks = ranks_of(run.table); !ranks.empty())
    view.description.environment.emplace_back("Ranks", ranks);
  return view;
}

/// Keys that differ between runs anyway (where it is written, when and how it was started), and
/// those that are also in the config.
bool tells_runs_apart_anyway(const std::string& key) {
  static const std::set<std::string> keys{"run.out", "Command", "Started",
                                          "Ended",   "Resumed", "Seed"};
  return keys.contains(key);
}

std::vector<Difference> differences_of(const std::vector<RunView>& runs) {
  std::vector<std::map<std::string, std::string>> values;
  for (const RunView& run : runs) {
    values.push_back(run.config);
    for (const auto& [name, text] : run.description.environment) values.back()[name] = text;
  }
  std::vector<Difference> found = differences(values);
  std::erase_if(found, [](const Difference& one) { return tells_runs_apart_anyway(one.key); });
  return found;
}

std::vector<std::string> remarks_on(const std::vector<RunView>& runs) {
  std::set<std::string> units;
  for (const RunView& run : runs)
    if (!run.description.unit.empty()) units.insert(run.description.unit);
  if (units.size() < 2) return {};
  return {
      "These runs count in different units (tokens and samples): their batches and speeds stand in "
      "charts of their own, and the axis of tokens is left out."};
}

}  // namespace

ReportData make_report_data(const std::vector<RunHistory>& runs, std::size_t most_numbers) {
  ReportData data;
  std::vector<FullTables> tables;
  std::set<std::string> present;
  for (const RunHistory& run : runs) {
    tables.push_back({with_derived(run.table), table_of_evaluations(run)});
    data.runs.push_back(view_of(run));
    add_present(tables.back().training, present);
    add_present(tables.back().evaluations, present);
  }
  data.charts = charts_of(present);
  const std::map<std::string, Kept> kept = kept_columns(data.charts);
  for (std::size_t buckets = most_buckets; buckets >= fewest_buckets; buckets /= 2) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      data.runs[i].training = thin_table(tables[i].training, kept, buckets);
      data.runs[i].evaluations = thin_table(tables[i].evaluations, kept, buckets);
    }
    if (numbers_in(data.runs) <= most_numbers) break;
  }
  data.differences = differences_of(data.runs);
  data.remarks = remarks_on(data.runs);
  return data;
}

std::size_t most_numbers_of(std::size_t runs) {
  constexpr std::size_t of_one_run = 130'000, most_runs = 10;
  return of_one_run * std::clamp<std::size_t>(runs, 1, most_runs);
}

}  // namespace accrue::observe
