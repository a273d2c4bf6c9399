#include "train/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/distributed/launch.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/arguments/parse_error.h"
#include "cli/help/verb_help.h"
#include "cli/output/print_text.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/output/row.h"
#include "cli/process/program.h"
#include "cli/verbs/plan_estimate.h"
#include "cli/verbs/plan_ranks.h"
#include "core/words.h"
#include "train/plan/plan_json.h"
#include "train/plan/setup.h"

namespace accrue::cli {
namespace {

constexpr std::int64_t most_ranks = 1'000'000;

struct PlanArguments {
  std::string config;
  std::int64_t ranks = 0;  ///< 0: as many as a launcher started
  bool json = false;
  bool estimate = false;
  std::string image;  ///< for --estimate and other machines: "3x32x32"
  memory::Offer offer, versus;
  RankPlanArguments machines;
  std::vector<std::string> overrides;
};

nlohmann::json to_json(const memory::Fact& fact) {
  nlohmann::json out{{"micro_batch", fact.point.micro_batch},
                     {"recompute", to_string(fact.point.recompute)},
                     {"fits", fact.measured.fits}};
  if (!fact.measured.fits) return out;
  out["peak_bytes"] = fact.measured.peak_bytes;
  out["seconds"] = fact.measured.seconds;
  if (fact.measured.waited_seconds > 0) out["waited_seconds"] = fact.measured.waited_seconds;
  return out;
}

/// Tokens of so many samples, on average of the batch; 0 for images.
std::int64_t tokens_of(std::int64_t samples, const train::PlanReport& report) {
  const double per_sample =
      static_cast<double>(report.batch_tokens) /
      static_cast<double>(std::max<std::int64_t>(1, report.effective.samples()));
  return std::llround(static_cast<double>(samples) * per_sample);
}

nlohmann::json to_json(const train::OffloadForecast& offload, const train::PlanReport& report) {
  nlohmann::json out{{"folder", offload.folder},
                     {"disk_read_bytes_per_second", offload.rates.read},
                     {"disk_write_bytes_per_second", offload.rates.write},
                     {"read_bytes_per_step", offload.bytes_read},
                     {"written_bytes_per_step", offload.bytes_written},
                     {"forward_seconds", offload.forward_seconds},
                     {"backward_seconds", offload.backward_seconds},
                     {"step_seconds", offload.step_seconds}};
  if (!offload.hiding_samples) return out;
  out["hiding_samples"] = *offload.hiding_samples;
  if (report.batch_tokens > 0) out["hiding_tokens"] = tokens_of(*offload.hiding_samples, report);
  return out;
}

nlohmann::json to_json(const train::PlanReport& report) {
  const memory::Plan& plan = report.plan;
  nlohmann::json out{{"micro_batch", plan.chosen.point.micro_batch},
                     {"micro_batches", plan.micro_batches},
                     {"recompute", to_string(plan.chosen.point.recompute)},
                     {"predicted_peak_bytes", plan.chosen.peak_bytes},
                     {"measured_peak_bytes", report.measured.peak_bytes},
                     {"breakdown", train::to_json(plan.breakdown)},
                     {"predicted_seconds_per_micro_batch", plan.chosen.micro_batch_seconds},
                     {"measured_seconds_per_micro_batch", report.measured.seconds},
                     {"seconds_per_step", report.seconds_per_step()},
                     {"reason", plan.reason},
                     {"limit_bytes", report.question.limit_bytes},
                     {"parameters", report.parameters},
                     {"effective_batch", train::effective_batch_json(report.effective)},
                     {"remarks", report.remarks},
                     {"batch_samples", report.question.window_samples},
                     {"alternatives", nlohmann::json::array()},
                     {"trials", nlohmann::json::array()}};
  if (report.offload) out["offload"] = to_json(*report.offload, report);
  if (report.closing_seconds) out["closing_seconds"] = *report.closing_seconds;
  if (report.question.is_budget)
    out["budget_bytes"] = report.question.limit_bytes + report.question.outside_bytes;
  if (report.question.outside_bytes > 0) out["outside_bytes"] = report.question.outside_bytes;
  if (report.batch_tokens > 0) {
    out["batch_tokens"] = report.batch_tokens;
    out["tokens_per_second"] = static_cast<double>(report.batch_tokens) / report.seconds_per_step();
  }
  for (const memory::PlanEntry& entry : plan.alternatives)
    out["alternatives"].push_back(
        train::to_json(entry, report.question.window_samples, report.seconds_outside_passes()));
  for (const memory::Fact& fact : report.facts) out["trials"].push_back(to_json(fact));
  if (report.bf16)
    out["bf16"] = {{"peak_bytes", report.bf16->peak_bytes},
                   {"seconds_per_micro_batch", report.bf16->micro_batch_seconds}};
  return out;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g s", seconds);
  return text;
}

void print_entry(const memory::PlanEntry& entry, const char* remark) {
  print_text("  %-38s %10s %12s a batch%s\n", memory::describe(entry.point).c_str(),
             format_bytes(entry.peak_bytes).c_str(), seconds_text(entry.window_seconds).c_str(),
             remark);
}

void print_breakdown(const memory::Breakdown& b) {
  print_row("of which", "parameters " + format_bytes(b.parameters) + ", gradients " +
                            format_bytes(b.gradients) + ", optimizer " + format_bytes(b.optimizer) +
                            ", activations " + format_bytes(b.activations) + ", temporaries " +
                            format_bytes(b.temporaries));
}

std::string bytes_text(double bytes) { return format_bytes(std::llround(bytes)); }

void print_offload(const train::OffloadForecast& offload, const train::PlanReport& report) {
  print_row("disk", bytes_text(offload.rates.read) + "/s read, " + bytes_text(offload.rates.write) +
                        "/s written, measured in " + offload.folder);
  print_row("a step moves", bytes_text(offload.bytes_read) + " read, " +
                                bytes_text(offload.bytes_written) + " written to the disk");
  print_row("of a step", "forward " + seconds_text(offload.forward_seconds) + ", backward " +
                             seconds_text(offload.backward_seconds) + ", norm and optimizer " +
                             seconds_text(offload.step_seconds));
  if (!offload.hiding_samples) return;
  const std::string batch =
      report.batch_tokens > 0 ? digit_groups(tokens_of(*offload.hiding_samples, report)) + " tokens"
                              : counted(*offload.hiding_samples, "sample");
  print_row("hidden", "the passes hide their transfers from " + batch + " a step on this disk");
}

void print(const train::PlanReport& report) {
  const memory::Plan& plan = report.plan;
  for (const std::string& remark : report.remarks) print_row("note", remark);
  print_row("effective batch", in_words(report.effective));
  print_row("plan", "micro-batches of " + memory::describe(plan.chosen.point));
  print_row("peak", format_bytes(plan.chosen.peak_bytes) + " predicted, " +
                        format_bytes(report.measured.peak_bytes) + " measured");
  print_breakdown(plan.breakdown);
  if (report.question.outside_bytes > 0)
    print_row("outside",
              format_bytes(report.question.outside_bytes) +
                  " of the budget for what is no tensor: code, libraries, heap, a reserve");
  print_row("micro-batch", seconds_text(plan.chosen.micro_batch_seconds) + " predicted, " +
                               seconds_text(report.measured.seconds) + " measured");
  std::string step = seconds_text(report.seconds_per_step());
  if (report.batch_tokens > 0)
    step += ", " +
            format_count(static_cast<double>(report.batch_tokens) / report.seconds_per_step()) +
            " tokens/s";
  print_row("step", step);
  if (report.offload) print_offload(*report.offload, report);
  print_row("reason", plan.reason);
  if (!plan.alternatives.empty()) print_text("\nalternatives\n");
  for (const memory::PlanEntry& entry : plan.alternatives)
    print_entry(entry, entry.within_limit ? "" : "  (beyond the limit)");
  if (report.bf16)
    print_text("\nprecision.compute = \"bf16\" would take %s and %s a micro-batch\n",
               format_bytes(report.bf16->peak_bytes).c_str(),
               seconds_text(report.bf16->micro_batch_seconds).c_str());
}

std::vector<std::int64_t> image_of(const std::string& text) {
  long long channels = 0, height = 0, width = 0;
  char more = 0;
  if (text.empty()) return {};
  if (std::sscanf(text.c_str(), "%lldx%lldx%lld%c", &channels, &height, &width, &more) == 3 &&
      channels > 0 && height > 0 && width > 0)
    return {channels, height, width};
  throw usage_error("plan --image", "channels x height x width, such as 3x32x32", text,
                    "--image 3x32x32");
}

/// The stated offer; none if neither of its options was given.
std::optional<memory::Offer> stated(const memory::Offer& offer) {
  if (offer.price_per_hour == 0 && offer.tokens_per_second == 0) return std::nullopt;
  return offer;
}

int run_estimate(const PlanArguments& arguments, const train::Config& config) {
  const train::RunEstimate estimate =
      train::estimate_run(config, {.ranks = std::max<std::int64_t>(1, arguments.ranks),
                                   .image = image_of(arguments.image),
                                   .offer = stated(arguments.offer),
                                   .versus = stated(arguments.versus)});
  print_estimate({.run = estimate,
                  .budget = train::estimate_budget(config, estimate),
                  .machine = train::estimate_on_this_machine(config, estimate)},
                 arguments.json);
  return 0;
}

/// Compares layouts on machines that need not exist.
int run_rank_plan(const PlanArguments& arguments, const train::Config& config) {
  if (arguments.estimate || stated(arguments.offer) || stated(arguments.versus))
    throw usage_error("plan", "either an estimate or layouts of ranks on other machines", "both",
                      "accrue plan CONFIG --ranks 8 --memory 24GiB --link 25Gbit/s");
  print_rank_plan(arguments.machines, arguments.ranks, image_of(arguments.image), config,
                  arguments.json);
  return 0;
}

void refuse_options_of_estimates(const PlanArguments& arguments) {
  if (arguments.image.empty() && !stated(arguments.offer) && !stated(arguments.versus)) return;
  throw usage_error("plan", "--estimate with --image and prices", "them without it",
                    "accrue plan CONFIG --estimate ...");
}

int run_plan(const PlanArguments& arguments, const Program& program) {
  train::Config config = program.load_config(arguments.config, arguments.overrides);
  if (arguments.machines.any()) return run_rank_plan(arguments, config);
  if (arguments.estimate) return run_estimate(arguments, config);
  refuse_options_of_estimates(arguments);
  const distributed::Launch launch = distributed::launch_of(distributed::this_environment());
  if (launch.rank != 0) return 0;  // simultaneous trials would measure each other
  if (config.run.threads == 0 && launch.local_world > 1)
    config.run.threads = train::threads_per_process(launch.local_world);
  const ShowProgress show = progress_on_stderr();
  const train::PlanReport report =
      train::plan_run(config, {.progress = staged_operation(show),
                               .show = show,
                               .ranks = arguments.ranks > 0 ? arguments.ranks : launch.world});
  if (arguments.json) {
    std::cout << to_json(report).dump(2) << std::endl;
  } else {
    print(report);
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action, const Program& program) {
  CLI::App* verb = app.add_subcommand(
      "plan", "Choose micro-batch and gradient checkpointing for the memory at hand");
  verb->allow_extras();
  set_help(
      *verb,
      {.heading = heading::train,
       .text = "A few micro-batches run and are measured; the cost of others is predicted "
               "from them. The fastest plan within memory.budget is shown, and those that no "
               "other plan beats in both memory and time. The exit status is 3 if nothing "
               "fits. Only the tokens of text are written, beside run.out.\n\nWith --ranks and "
               "--memory, and --link between their nodes, it compares how ranks on other "
               "machines could share the run: by arithmetic, without data and trials.",
       .examples = {"accrue plan gpt.toml --memory.budget=6GiB --json",
                    "accrue plan gpt.toml --estimate --price 2.5 --tokens-per-second 40000",
                    "accrue plan gpt.toml --ranks 8 --memory 24GiB --link 25Gbit/s"}});
  auto arguments = std::make_shared<PlanArguments>();
  add_needed_config(*verb, arguments->config);
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->add_option("--ranks", arguments->ranks,
                   "Plan for one of so many processes that share the batch")
      ->check(integer_in(1, most_ranks));
  add_rank_plan_options(*verb, arguments->machines);
  verb->add_flag("--estimate", arguments->estimate,
                 "Only arithmetic, from the config alone: no data and no model");
  verb->add_option("--image", arguments->image,
                   "Of an estimate or of other machines: the images, as 3x32x32");
  verb->add_option("--price", arguments->offer.price_per_hour,
                   "Of an estimate: of a device's hour");
  verb->add_option("--tokens-per-second", arguments->offer.tokens_per_second,
                   "Of an estimate: what the run reaches on it");
  verb->add_option("--versus-price", arguments->versus.price_per_hour,
                   "Of an estimate: of another device's hour");
  verb->add_option("--versus-tokens-per-second", arguments->versus.tokens_per_second,
                   "Of an estimate: what the run reaches on that");
  verb->callback([=, &action, &program] {
    expect_config(arguments->config);
    arguments->overrides = take_overrides(*verb);
    action = [=, &program] { return run_plan(*arguments, program); };
  });
}

}  // namespace accrue::cli
