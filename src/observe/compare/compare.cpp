#include "observe/compare/compare.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <set>
#include <utility>

#include "core/words.h"
#include "observe/compare/comparability.h"

namespace accrue::observe {
namespace {

using Runs = std::vector<RunResult>;

/// A number of each run, and which direction is better.
struct Metric {
  std::string name, measure;
  bool is_better_lower = true;
  std::function<std::optional<double>(const RunResult&)> value_of;
};

Metric loss_metric(LossMeasure measure) {
  const bool is_eval = measure == LossMeasure::eval_loss;
  return {.name = "loss",
          .measure = std::string(loss_measure_words.of(measure)),
          .value_of = [is_eval](const RunResult& run) {
            if (run.diverged) return std::optional<double>();
            return is_eval ? run.eval_loss : run.train_loss;
          }};
}

Metric speed_metric(SpeedUnit unit) {
  return {.name = "speed",
          .measure = std::string(speed_unit_words.of(unit)) + "_per_second",
          .is_better_lower = false,
          .value_of = [unit](const RunResult& run) {
            const bool fits = run.speed && run.speed->unit == unit;
            return fits ? std::optional(run.speed->per_second) : std::nullopt;
          }};
}

Metric memory_metric() {
  return {.name = "memory", .measure = "peak_bytes", .value_of = [](const RunResult& run) {
            return run.peak_bytes;
          }};
}

/// Sums over the values of one side.
struct Side {
  SeedMean seeds;
  double squares = 0;  ///< of the differences from the mean
  std::vector<std::string> without;
};

Side side_of(const Runs& runs, const Metric& metric) {
  Side side;
  std::vector<double> values;
  for (const RunResult& run : runs) {
    if (const auto value = metric.value_of(run))
      values.push_back(*value);
    else
      side.without.push_back(run.name);
  }
  side.seeds.runs = values.size();
  const auto count = static_cast<double>(values.size());
  for (const double value : values) side.seeds.mean += value / count;
  for (const double value : values) side.squares += std::pow(value - side.seeds.mean, 2);
  if (count > 1) side.seeds.deviation = std::sqrt(side.squares / (count - 1));
  return side;
}

/// The uncertainty of the difference of the two means; none if no side has several runs.
std::optional<double> standard_error(const Side& a, const Side& b) {
  const auto of_a = static_cast<double>(a.seeds.runs), of_b = static_cast<double>(b.seeds.runs);
  if (of_a + of_b <= 2) return std::nullopt;
  const double variance = (a.squares + b.squares) / (of_a + of_b - 2);
  return std::sqrt(variance * (1 / of_a + 1 / of_b));
}

std::string exact_percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g%%", 100 * share);
  return text;
}

/// Sets the findings for a metric that all runs have.
void judge(const Side& runs, const Side& baseline, bool is_better_lower, MetricComparison& found) {
  // The last digits of a share such as 1.005 / 1 - 1 are rounding errors, and must not decide.
  constexpr double rounding = 1e-12;
  const double change = runs.seeds.mean - baseline.seeds.mean;
  const double unit = std::abs(baseline.seeds.mean);
  if (unit == 0 && change != 0) {
    found.met = (change < 0) == is_better_lower;
    found.reason = found.met ? "better than a baseline of 0"
                             : "worse than a baseline of 0, of which there are no shares";
    return;
  }
  found.difference = unit == 0 ? 0 : change / unit;
  if (const auto error = standard_error(runs, baseline))
    found.standard_error = unit == 0 ? 0 : *error / unit;
  const double worse = is_better_lower ? *found.difference : -*found.difference;
  const bool is_allowed = worse <= found.allowed + rounding;
  const bool is_scatter = found.standard_error && worse <= *found.standard_error;
  found.met = is_allowed || is_scatter;
  if (worse <= 0)
    found.reason = worse < 0 ? "better" : "the same";
  else if (is_allowed)
    found.reason = "worse by no more than is allowed";
  else if (is_scatter)
    found.reason = "worse by more than is allowed, but within the standard error of the seeds (" +
                   exact_percent(*found.standard_error) + "): more of them would tell";
  else
    found.reason = "worse by more than is allowed";
}

std::string reason_of_lack(const std::string& measure, std::vector<std::string> without) {
  return listed(without, "and") + (without.size() == 1 ? " does" : " do") + " not tell " + measure;
}

MetricComparison compare_metric(const Runs& runs, const Runs& baseline, const Metric& metric,
                                double allowed) {
  MetricComparison found{.name = metric.name, .measure = metric.measure, .allowed = allowed};
  const Side left = side_of(runs, metric), right = side_of(baseline, metric);
  if (left.without.empty()) found.value = left.seeds;
  if (right.without.empty()) found.baseline = right.seeds;
  if (found.value && found.baseline) {
    judge(left, right, metric.is_better_lower, found);
    return found;
  }
  std::vector<std::string> without = left.without;
  without.insert(without.end(), right.without.begin(), right.without.end());
  found.reason = reason_of_lack(metric.measure, without);
  return found;
}

MetricComparison compare_losses(const Runs& runs, const Runs& baseline, double allowed) {
  MetricComparison found =
      compare_metric(runs, baseline, loss_metric(loss_measure(runs, baseline)), allowed);
  const std::vector<std::string> diverged = diverged_runs(runs, baseline);
  if (!diverged.empty())
    found.reason = "the last evaluation of " + listed(diverged, "and") + " gave no finite loss";
  return found;
}

std::set<SpeedUnit> units_of(const Runs& runs) {
  std::set<SpeedUnit> units;
  for (const RunResult& run : runs)
    if (run.speed) units.insert(run.speed->unit);
  return units;
}

MetricComparison compare_speeds(const Runs& runs, const Runs& baseline, double allowed) {
  const std::set<SpeedUnit> left = units_of(runs), right = units_of(baseline);
  const bool differ =
      left.size() > 1 || right.size() > 1 || (!left.empty() && !right.empty() && left != right);
  if (differ)
    return {.name = "speed",
            .measure = "per_second",
            .allowed = allowed,
            .reason =
                "some of these runs count tokens and some samples, which have no common "
                "speed"};
  const bool is_samples = left.contains(SpeedUnit::samples) || right.contains(SpeedUnit::samples);
  return compare_metric(runs, baseline,
                        speed_metric(is_samples ? SpeedUnit::samples : SpeedUnit::tokens), allowed);
}

}  // namespace

Comparison compare_runs(const Runs& runs, const Runs& baseline, const Allowances& allowances) {
  Comparison comparison{.met = true, .metrics = {}, .remarks = remarks_on(runs, baseline)};
  if (allowances.loss)
    comparison.metrics.push_back(compare_losses(runs, baseline, *allowances.loss));
  if (allowances.speed)
    comparison.metrics.push_back(compare_speeds(runs, baseline, *allowances.speed));
  if (allowances.memory)
    comparison.metrics.push_back(
        compare_metric(runs, baseline, memory_metric(), *allowances.memory));
  for (const MetricComparison& metric : comparison.metrics)
    comparison.met = comparison.met && metric.met;
  return comparison;
}

}  // namespace accrue::observe
