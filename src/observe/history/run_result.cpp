#include "observe/history/run_result.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "observe/history/run_facts.h"

namespace accrue::observe {
namespace {

using nlohmann::json;
using Column = std::vector<double>;

std::optional<double> first_value(const Column* column) {
  if (column == nullptr) return std::nullopt;
  const auto found = std::ranges::find_if(*column, [](double v) { return !std::isnan(v); });
  return found == column->end() ? std::nullopt : std::optional(*found);
}

/// The largest value that is possible as a number of bytes.
std::optional<double> most_bytes(const Column* column) {
  constexpr double beyond_all = 0x1p62;
  std::optional<double> largest;
  if (column == nullptr) return largest;
  for (const double value : *column)
    if (value >= 0 && value < beyond_all && (!largest || value > *largest)) largest = value;
  return largest;
}

/// Whether all losses from row `begin` on have a weight.
bool has_weights(const Column& losses, const Column* weights, std::size_t begin) {
  if (weights == nullptr) return false;
  for (std::size_t row = begin; row < losses.size(); ++row)
    if (!std::isnan(losses[row]) && !((*weights)[row] > 0)) return false;
  return true;
}

std::optional<double> mean_of_last_tenth(const StepTable& table) {
  const Column* losses = table.column("loss");
  if (losses == nullptr) return std::nullopt;
  const std::size_t begin = losses->size() - static_cast<std::size_t>(steps_of_last_tenth(table));
  const Column* weights = table.column("weight");
  const bool weighted = has_weights(*losses, weights, begin);
  double sum = 0, total = 0;
  for (std::size_t row = begin; row < losses->size(); ++row) {
    if (std::isnan((*losses)[row])) continue;
    const double weight = weighted ? (*weights)[row] : 1;
    sum += (*losses)[row] * weight;
    total += weight;
  }
  return total > 0 ? std::optional(sum / total) : std::nullopt;
}

/// The step after each start of an attempt.
std::vector<std::int64_t> first_steps(const StepTable& table, const json& facts) {
  std::vector<std::int64_t> steps;
  if (!table.steps.empty()) steps.push_back(table.steps.front());
  const json& resumed = fact(facts, "resumed");
  if (!resumed.is_array()) return steps;
  for (const json& attempt : resumed) {
    if (const auto step = count_of(fact(attempt, "step"))) steps.push_back(*step + 1);
  }
  return steps;
}

std::optional<std::string> iso_time(std::optional<double> unix_time) {
  constexpr double latest = 253402300799;  // in the year 9999
  if (!unix_time || !(*unix_time >= 0 && *unix_time <= latest)) return std::nullopt;
  const auto seconds = static_cast<std::time_t>(*unix_time);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

/// A time of run.json, as text or as seconds of Unix.
std::optional<std::string> stated_time(const json& time) {
  if (time.is_string()) return time.get<std::string>();
  return time.is_number() ? iso_time(time.get<double>()) : std::nullopt;
}

std::optional<std::string> start_of(const RunHistory& run, const json& facts) {
  if (auto stated = stated_time(fact(facts, "started"))) return stated;
  return iso_time(first_value(run.table.column("time")));
}

/// The end in run.json, unless steps were taken since; else the time of the last step.
std::optional<std::string> end_of(const RunHistory& run, const json& facts) {
  if (run.state == RunState::running) return std::nullopt;
  auto stated = stated_time(fact(fact(facts, "ended"), "time"));
  auto last = iso_time(last_value(run.table.column("time")));
  return std::max(std::move(stated), std::move(last));
}

std::string machine_of(const json& facts) {
  const json& machine = fact(facts, "machine");
  const json& processor = fact(machine, "processor");
  const json& threads = fact(machine, "threads");
  if (!processor.is_string() || !threads.is_number_integer()) return "";
  return processor.get<std::string>() + ", " + printed(threads) + " threads";
}

std::string validation_of(const json& facts) {
  std::string prints;
  const json& files = fact(fact(facts, "data"), "val");
  if (!files.is_array()) return prints;
  for (const json& file : files) prints += printed(fact(file, "fingerprint")) + " ";
  return prints;
}

/// Whether an evaluation after the last finite one was not a number, which is an event.
bool has_diverged(const RunHistory& run) {
  const std::int64_t last = run.evaluations.empty() ? -1 : run.evaluations.back().step;
  return std::ranges::any_of(run.events, [&](const EventPoint& event) {
    return event.name == "evaluation" && event.step > last;
  });
}

}  // namespace

std::optional<double> last_value(const std::vector<double>* column) {
  if (column == nullptr) return std::nullopt;
  for (auto value = column->rbegin(); value != column->rend(); ++value)
    if (!std::isnan(*value)) return *value;
  return std::nullopt;
}

std::int64_t steps_of_last_tenth(const StepTable& table) {
  return std::max<std::int64_t>(1, std::ssize(table.steps) / 10);
}

RunResult result_of(const RunHistory& run) {
  const json facts = parse_run_json(run.run_json);
  RunResult result{.name = run.name, .state = run.state, .total_steps = run.total_steps};
  if (!run.table.steps.empty()) result.last_step = run.table.steps.back();
  result.last_loss = last_value(run.table.column("loss"));
  result.train_loss = mean_of_last_tenth(run.table);
  if (!run.evaluations.empty()) {
    result.eval_loss = run.evaluations.back().loss;
    result.eval_step = run.evaluations.back().step;
  }
  result.diverged = has_diverged(run);
  result.speed = speed_of(run.table, first_steps(run.table, facts));
  result.peak_bytes = most_bytes(run.table.column("peak_bytes"));
  result.started = start_of(run, facts);
  result.ended = end_of(run, facts);
  result.machine = machine_of(facts);
  result.evaluated_on = validation_of(facts);
  return result;
}

}  // namespace accrue::observe
