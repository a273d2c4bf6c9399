#include "observe/compare/compare.h"

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/output/run_text.h"
#include "cli/output/text_table.h"
#include "cli/process/exit_status.h"
#include "core/words.h"
#include "observe/history/run_history.h"

namespace accrue::cli {
namespace {

using Json = nlohmann::ordered_json;
using observe::Comparison;
using observe::MetricComparison;
using observe::RunResult;
using observe::SeedMean;

struct CompareArguments {
  std::vector<std::string> runs, baseline;
  std::string loss = "0.5%", speed = "5%", memory = "2%";
  bool json = false;
};

struct Sides {
  std::vector<RunResult> runs, baseline;
  std::vector<std::string> remarks;  ///< on what the folders lack
};

/// For two runs without --baseline: the second is the baseline.
CompareArguments with_baseline(CompareArguments arguments) {
  if (!arguments.baseline.empty() && !arguments.runs.empty()) return arguments;
  if (!arguments.baseline.empty() || arguments.runs.size() != 2)
    throw usage_error("accrue compare", "RUN... --baseline RUN..., or two runs",
                      arguments.baseline.empty()
                          ? counted(static_cast<std::int64_t>(arguments.runs.size()), "run") +
                                " and no --baseline"
                          : "no run before --baseline",
                      "accrue compare RUN --baseline RUN");
  arguments.baseline.push_back(arguments.runs.back());
  arguments.runs.pop_back();
  return arguments;
}

/// An accidental change would decide whether a baseline is met.
Error changed_since(const observe::RunHistory& run) {
  return usage_error("accrue compare " + run.root.string(), "files as the run wrote them",
                     run.changes.front(),
                     "a copy of the run (run.replica); accrue report shows what there is");
}

Sides read_sides(const CompareArguments& arguments) {
  std::vector<std::filesystem::path> roots(arguments.runs.begin(), arguments.runs.end());
  roots.insert(roots.end(), arguments.baseline.begin(), arguments.baseline.end());
  Sides sides;
  for (const observe::RunHistory& run : observe::read_runs(roots)) {
    if (!run.changes.empty()) throw changed_since(run);
    auto& side = sides.runs.size() < arguments.runs.size() ? sides.runs : sides.baseline;
    side.push_back(observe::result_of(run));
    for (const std::string& remark : run.remarks) sides.remarks.push_back(run.name + "/" + remark);
  }
  return sides;
}

Json to_json(const MetricComparison& metric) {
  Json json{{"name", metric.name}, {"measure", metric.measure}};
  Json deviation;
  const auto put = [&](const char* name, const std::optional<SeedMean>& side) {
    if (!side) return;
    json[name] = side->mean;
    if (side->runs > 1) deviation[name] = side->deviation;
  };
  put("value", metric.value);
  put("baseline", metric.baseline);
  if (metric.difference) json["difference"] = *metric.difference;
  if (!deviation.empty()) json["deviation"] = deviation;
  if (metric.standard_error) json["standard_error"] = *metric.standard_error;
  json["allowed"] = metric.allowed;
  json["met"] = metric.met;
  json["reason"] = metric.reason;
  return json;
}

Json names_of(const std::vector<RunResult>& runs) {
  Json names = Json::array();
  for (const RunResult& run : runs) names.push_back(run.name);
  return names;
}

void print_json(const Comparison& comparison, const Sides& sides) {
  Json json{{"met", comparison.met}, {"metrics", Json::array()}};
  for (const MetricComparison& metric : comparison.metrics)
    json["metrics"].push_back(to_json(metric));
  json["runs"] = names_of(sides.runs);
  json["baseline"] = names_of(sides.baseline);
  json["remarks"] = comparison.remarks;
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
}

std::string quantity(const std::string& metric, const std::string& measure, double value) {
  if (metric == "loss") return loss_text(value);
  if (metric == "memory") return format_bytes(static_cast<std::int64_t>(value));
  return rate_text(value) + (measure == "samples_per_second" ? " samples/s" : " tokens/s");
}

/// A side's mean, with the seeds' standard deviation if there are several.
std::string side_text(const MetricComparison& metric, const std::optional<SeedMean>& side) {
  if (!side) return "-";
  std::string text = quantity(metric.name, metric.measure, side->mean);
  if (side->runs > 1) text += " +- " + quantity(metric.name, metric.measure, side->deviation);
  return text;
}

std::string signed_percent(double share) {
  char text[48];
  std::snprintf(text, sizeof text, "%+.2f%%", 100 * share);
  return text;
}

std::string allowance_text(const MetricComparison& metric) {
  char text[48];
  const double worse = metric.name == "speed" ? -metric.allowed : metric.allowed;
  std::snprintf(text, sizeof text, "%+.3g%%", 100 * worse);
  return text;
}

std::string title_of(const std::vector<RunResult>& runs, const std::string& one) {
  if (runs.size() == 1) return runs.front().name;
  return one + ", mean of " + std::to_string(runs.size());
}

void print_table(const Comparison& comparison, const Sides& sides) {
  using enum TextTable::Side;
  TextTable table({{""},
                   {title_of(sides.runs, "runs"), right},
                   {title_of(sides.baseline, "baseline"), right},
                   {"difference", right},
                   {"allowed", right, 2},
                   {"met"}});
  for (const MetricComparison& metric : comparison.metrics)
    table.add_row({metric.name, side_text(metric, metric.value), side_text(metric, metric.baseline),
                   metric.difference ? signed_percent(*metric.difference) : "-",
                   allowance_text(metric), metric.met ? "yes" : "no"});
  for (const std::string& line : table.lines(output_width())) std::cout << line << '\n';
}

void print_reasons(const Comparison& comparison) {
  std::vector<std::string> missed;
  for (const MetricComparison& metric : comparison.metrics) {
    std::cout << metric.name << " (" << metric.measure << "): " << metric.reason << '\n';
    if (!metric.met) missed.push_back(metric.name);
  }
  for (const std::string& remark : comparison.remarks) std::cout << "note: " << remark << '\n';
  std::cout << (missed.empty() ? "the baseline is met"
                               : "the baseline is not met: " + listed(missed, "and"))
            << std::endl;
}

observe::Allowances allowances_of(const CompareArguments& arguments) {
  const observe::Allowances allowances{
      .loss = observe::parse_allowance(arguments.loss, "--loss"),
      .speed = observe::parse_allowance(arguments.speed, "--speed"),
      .memory = observe::parse_allowance(arguments.memory, "--memory")};
  if (!allowances.loss && !allowances.speed && !allowances.memory)
    throw usage_error("accrue compare", "something to compare", "loss, speed and memory off",
                      "leaving one of them on");
  return allowances;
}

int run_compare(const CompareArguments& typed) {
  const observe::Allowances allowances = allowances_of(typed);
  const Sides sides = read_sides(with_baseline(typed));
  Comparison comparison = observe::compare_runs(sides.runs, sides.baseline, allowances);
  comparison.remarks.insert(comparison.remarks.end(), sides.remarks.begin(), sides.remarks.end());
  if (typed.json) {
    print_json(comparison, sides);
  } else {
    print_table(comparison, sides);
    print_reasons(comparison);
  }
  return exit_status_of_check(comparison.met, Error::Kind::refused);
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("compare", "Check whether runs are as good as a baseline");
  set_help(
      *verb,
      {.heading = heading::runs,
       .text =
           "The loss is that of the last evaluation, or the mean of the last tenth of the steps; "
           "memory is the peak. Several runs on a side are seeds: their means are compared. An "
           "allowance is how much worse a metric may be (0.5% or 0.005); off leaves the metric "
           "out. The exit status is 3 if the baseline is not met, for pipelines.",
       .examples = {"accrue compare runs/new runs/old",
                    "accrue compare runs/new-* --baseline runs/old-* --loss=1% --speed=off"}});
  auto arguments = std::make_shared<CompareArguments>();
  verb->add_option("RUN", arguments->runs,
                   "Folders of runs; without --baseline two, run and baseline");
  verb->add_option("--baseline", arguments->baseline, "Folders of the runs to compare with")
      ->type_name("RUN");
  for (const auto& [name, value] : {std::pair{"--loss", &arguments->loss},
                                    {"--speed", &arguments->speed},
                                    {"--memory", &arguments->memory}})
    verb->add_option(name, *value, "How much worse it may be, or off")
        ->type_name("SHARE")
        ->capture_default_str();
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action] { action = [=] { return run_compare(*arguments); }; });
}

}  // namespace accrue::cli
