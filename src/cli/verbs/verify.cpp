#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/arguments/parse_error.h"
#include "cli/help/verb_help.h"
#include "cli/help/wrapped_text.h"
#include "cli/output/offload_note.h"
#include "cli/output/print_text.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/output/text_table.h"
#include "cli/process/exit_status.h"
#include "cli/process/program.h"
#include "core/words.h"
#include "memory/out_of_memory.h"
#include "verify/config/against_cpu.h"
#include "verify/config/verify_config.h"
#include "verify/report_fields.h"

namespace accrue::cli {
namespace {

/// Each is a thread of this process with a copy of the model.
constexpr std::int64_t most_threads_as_ranks = 64;

struct VerifyArguments {
  std::string config;
  bool json = false;
  std::int64_t ranks = 0;  ///< 0: one, or a pipeline's stages
  bool thorough = false;
  std::string against;
  std::vector<std::string> overrides;
};

/// JSON has no infinity.
double finite(double value) {
  return std::isfinite(value) ? value : std::numeric_limits<double>::max();
}

nlohmann::json to_json(const proof::SplitResult& split) {
  return {{"name", split.name},
          {"samples", split.samples},
          {"micro_batches", split.micro_batches},
          {"parameter", split.parameter},
          {"relative_error", finite(split.relative_error)},
          {"bound", finite(split.bound)},
          {"largest_error", finite(split.largest_error)},
          {"largest_bound", finite(split.largest_bound)},
          {"equal", split.equal}};
}

nlohmann::json to_json(const proof::SkippedSplit& split) {
  return {{"name", split.name}, {"samples", split.samples}, {"reason", split.reason}};
}

nlohmann::json to_json(const proof::StepsResult& steps) {
  return {{"steps", steps.steps},
          {"splits", steps.splits},
          {"ranks", steps.ranks},
          {"stepper", steps.stepper},
          {"parameter", steps.parameter},
          {"relative_error", finite(steps.relative_error)},
          {"bound", finite(steps.bound)},
          {"equal", steps.equal},
          {"largest_error", finite(steps.largest_error)},
          {"largest_bound", finite(steps.largest_bound)},
          {"conclusive", steps.conclusive}};
}

/// Makes JSON of what has fields (verify/report_fields.h).
struct JsonOf {
  static nlohmann::json value_of(bool value) { return value; }
  static nlohmann::json value_of(double value) { return finite(value); }
  static nlohmann::json value_of(const std::string& value) { return value; }
  static nlohmann::json value_of(const std::vector<std::string>& value) { return value; }
  template <class Part>
  static nlohmann::json value_of(const std::vector<Part>& parts) {
    nlohmann::json list = nlohmann::json::array();
    for (const Part& part : parts) list.push_back(object_of(part));
    return list;
  }
  template <class Whole>
  static nlohmann::json object_of(const Whole& whole) {
    nlohmann::json object = nlohmann::json::object();
    proof::each_field(whole,
                      [&](const char* name, const auto& value) { object[name] = value_of(value); });
    return object;
  }
};

nlohmann::json to_json(const proof::Report& report) {
  nlohmann::json out = JsonOf::object_of(report);
  out["splits"] = nlohmann::json::array();
  out["skipped"] = nlohmann::json::array();
  for (const proof::SplitResult& split : report.splits) out["splits"].push_back(to_json(split));
  for (const proof::SkippedSplit& split : report.skipped) out["skipped"].push_back(to_json(split));
  if (report.steps) out["steps"] = to_json(*report.steps);
  if (report.times)
    out["seconds"] = {{"total", report.times->total},
                      {"windows_of_work", report.times->windows},
                      {"window", report.times->window},
                      {"fp64", report.times->in_double}};
  return out;
}

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

const char* verdict(bool equal) { return equal ? "equal" : "DIFFERS"; }

/// The table of splits. A narrow terminal shows only the largest errors and their bounds.
TextTable table_of(const proof::Report& report) {
  using enum TextTable::Side;
  TextTable table({{"split"},
                   {"samples", right, 1},
                   {"largest error", right},
                   {"its bound", right},
                   {"nearest to its bound", left, 4},
                   {"error", right, 3},
                   {"bound", right, 2},
                   {""}});
  for (const proof::SplitResult& split : report.splits)
    table.add_row({split.name, std::to_string(split.samples), scientific(split.largest_error),
                   scientific(split.largest_bound), split.parameter,
                   scientific(split.relative_error), scientific(split.bound),
                   verdict(split.equal)});
  if (const auto& steps = report.steps) {
    const std::string by = steps->ranks > 1 ? ", also by " + counted(steps->ranks, "rank") : "";
    table.add_row({std::to_string(steps->steps) + " optimizer steps" + by, "",
                   scientific(steps->largest_error), scientific(steps->largest_bound),
                   steps->parameter, scientific(steps->relative_error), scientific(steps->bound),
                   steps->equal && !steps->conclusive ? "not conclusive" : verdict(steps->equal)});
  }
  for (const proof::SkippedSplit& split : report.skipped)
    table.add_row({split.name, std::to_string(split.samples), "", "", "", "", "", "skipped"});
  return table;
}

/// A text in lines of the terminal, the first of them after `head`, which is indented already.
std::string beside(const std::string& head, const std::string& text) {
  const std::string lines = wrapped(text, output_width(), head.size());
  return head + lines.substr(std::min(head.size(), lines.size()));
}

/// "by 0.012%", or "1 in 3,400" for a share of the batch.
std::string size_of(const proof::SmallestFault& fault) {
  char text[48];
  if (fault.kind.starts_with("a sample") && fault.relative < 1)
    std::snprintf(text, sizeof text, "1 in %.0f", std::floor(1 / fault.relative));
  else
    std::snprintf(text, sizeof text, "by %.2g%%", 100 * fault.relative);
  return text;
}

void print(const proof::Report& report) {
  const std::size_t width = output_width();
  print_text("%s\n", wrapped("reference: " + report.reference, width).c_str());
  for (const std::string& line : table_of(report).lines(width)) print_text("%s\n", line.c_str());
  print_text("\n%s", wrapped(proof::conclusion(report), width).c_str());
  if (!report.equal)
    print_text("%s", wrapped("What to do: " + proof::advice(report) + ".", width).c_str());
  std::set<std::string> reasons;
  for (const proof::SkippedSplit& split : report.skipped)
    if (reasons.insert(split.reason).second)
      print_text("%s", beside("  - ", "skipped: " + split.reason).c_str());
  for (const std::string& line : report.evidence) print_text("%s", beside("  - ", line).c_str());
  for (const std::string& line : report.ruled_out)
    print_text("%s", beside("  - ", "ruled out: " + line).c_str());
  for (const std::string& line : report.left_out)
    print_text("%s", beside("  - ", "left out: " + line).c_str());
  if (!report.smallest_fault.empty()) print_text("Smallest faults that it would have noticed:\n");
  for (const proof::SmallestFault& fault : report.smallest_fault)
    print_text("  %-44s %s\n", fault.kind.c_str(), size_of(fault).c_str());
}

/// The comparison. A budget that cannot be met is not a difference: status 3 is for a found one.
proof::Report verified(const train::Config& config, const proof::VerifyConfigOptions& options,
                       bool against_cpu) {
  try {
    return against_cpu ? proof::verify_against_cpu(config, options)
                       : proof::verify_config(config, options);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::refused) throw;
    throw runtime_error(error.operation(), error.expected(), error.received(), error.suggestion());
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    throw runtime_error("verify", "memory for one pass over the smallest part",
                        memory::why_out_of_memory(error),
                        "a larger memory.budget, or a smaller model or context");
  }
}

int run_verify(const VerifyArguments& arguments, const Program& program) {
  const train::Config config = program.load_config(arguments.config, arguments.overrides);
  note_offload(config, "verify");
  const ShowProgress show = progress_on_stderr();
  const proof::Report report = verified(config,
                                        {.progress = staged_operation(show),
                                         .show = show,
                                         .ranks = arguments.ranks,
                                         .thorough = arguments.thorough},
                                        !arguments.against.empty());
  if (arguments.json) {
    std::cout << to_json(report).dump(2) << std::endl;
  } else {
    print(report);
  }
  return exit_status_of_check(report.equal, Error::Kind::refused);
}

}  // namespace

void add_verify(CLI::App& app, Action& action, const Program& program) {
  CLI::App* verb =
      app.add_subcommand("verify", "Prove that accumulation gives the full batch's gradient");
  verb->allow_extras();
  set_help(*verb,
           {.heading = heading::prove,
            .text = "The gradient of the first batch is computed in one pass and in several "
                    "splits, orders and precisions, and compared per parameter with a bound on "
                    "rounding. The exit status is 3 if the bound is exceeded, with the cause and "
                    "the evidence. Only the tokens of text are written, beside run.out.",
            .examples = {"accrue verify gpt.toml --batch.micro=4 --json",
                         "accrue verify gpt.toml --ranks 4 --thorough"}});
  auto arguments = std::make_shared<VerifyArguments>();
  add_needed_config(*verb, arguments->config);
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->add_option("--ranks", arguments->ranks,
                   "Compare what so many processes that share the batch add up, too")
      ->check(integer_in(1, most_threads_as_ranks));
  verb->add_flag("--thorough", arguments->thorough,
                 "Compare splits, orders and steps on all of the batch, whatever that takes");
  verb->add_option("--against", arguments->against,
                   "cpu: compare the device's window, per parameter, with fp64 on the CPU instead")
      ->check(CLI::IsMember({"cpu"}));
  verb->callback([=, &action, &program] {
    expect_config(arguments->config);
    arguments->overrides = take_overrides(*verb);
    action = [=, &program] { return run_verify(*arguments, program); };
  });
}

}  // namespace accrue::cli
