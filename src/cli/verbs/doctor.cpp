#include "verify/doctor/doctor.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/output/offload_note.h"
#include "cli/output/print_text.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/process/exit_status.h"
#include "cli/process/program.h"
#include "verify/operations/device_conformance.h"

namespace accrue::cli {
namespace {

struct DoctorArguments {
  std::string config;
  std::string device;  ///< examined instead of a config
  bool json = false;
  std::vector<std::string> overrides;
};

nlohmann::json to_json(const proof::Finding& finding) {
  nlohmann::json out{{"id", finding.id},
                     {"severity", proof::to_string(finding.severity)},
                     {"message", finding.message},
                     {"advice", finding.advice},
                     {"evidence", nlohmann::json::object()}};
  for (const auto& [name, value] : finding.evidence) out["evidence"][name] = value;
  return out;
}

nlohmann::json to_json(const proof::Examination& examination) {
  const proof::RunFacts& facts = examination.facts;
  nlohmann::json out{{"findings", nlohmann::json::array()},     {"parameters", facts.parameters},
                     {"batch_samples", facts.batch_samples},    {"micro_batch", facts.micro_batch},
                     {"micro_batches", facts.micro_batches},    {"total_steps", facts.total_steps},
                     {"steps_per_epoch", facts.steps_per_epoch}};
  for (const proof::Finding& finding : examination.findings)
    out["findings"].push_back(to_json(finding));
  if (facts.speed) out["samples_per_second"] = facts.speed->samples_per_second;
  return out;
}

void print(const proof::Examination& examination) {
  for (const proof::Finding& finding : examination.findings) {
    print_text("%-8s %s: %s\n", std::string(proof::to_string(finding.severity)).c_str(),
               finding.id.c_str(), finding.message.c_str());
    if (!finding.advice.empty()) print_text("         try %s\n", finding.advice.c_str());
  }
  if (examination.findings.empty()) print_text("Nothing to say against this run.\n");
}

/// Prints the result of each operation that training needs of the device.
int examine_device(const DoctorArguments& arguments) {
  const c10::Device device = device::open(arguments.device);
  const std::vector<proof::DeviceCheck> checks = proof::check_device(device);
  const bool all = std::ranges::all_of(checks, &proof::DeviceCheck::passed);
  if (arguments.json) {
    nlohmann::json out{
        {"device", device.str()}, {"passed", all}, {"checks", nlohmann::json::array()}};
    for (const proof::DeviceCheck& check : checks)
      out["checks"].push_back(
          {{"name", check.name}, {"passed", check.passed}, {"detail", check.detail}});
    std::cout << out.dump(2) << std::endl;
  } else {
    for (const proof::DeviceCheck& check : checks)
      print_text("%-6s %-62s %s\n", check.passed ? "ok" : "FAILS", check.name.c_str(),
                 check.detail.c_str());
    print_text("%s\n", all ? (device.str() + " can be trained on.").c_str()
                           : (device.str() + " does not do all that training asks of it.").c_str());
  }
  return exit_status_of_check(all, Error::Kind::refused);
}

int run_doctor(const DoctorArguments& arguments, const Program& program) {
  if (!arguments.device.empty()) return examine_device(arguments);
  if (arguments.config.empty())
    throw usage_error("doctor", "a config, or --device=NAME", "neither",
                      "accrue doctor gpt.toml, or accrue doctor --device=cuda");
  const train::Config config = program.load_config(arguments.config, arguments.overrides);
  note_offload(config, "doctor");
  const ShowProgress show = progress_on_stderr();
  const proof::Examination examination =
      proof::doctor(config, {.progress = staged_operation(show), .show = show});
  if (arguments.json) {
    std::cout << to_json(examination).dump(2) << std::endl;
  } else {
    print(examination);
  }
  return 0;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action, const Program& program) {
  CLI::App* verb = app.add_subcommand("doctor", "Check a run before it starts, and give advice");
  verb->allow_extras();
  set_help(*verb, {.heading = heading::train,
                   .text = "Checks the config, the labels of the first batch, the model's layers, "
                           "and the speed of a few micro-batches. Findings do not change the exit "
                           "status. Only the tokens of text are written, beside run.out.",
                   .examples = {"accrue doctor gpt.toml --precision.compute=bf16",
                                "accrue doctor --device cuda"}});
  auto arguments = std::make_shared<DoctorArguments>();
  add_config(*verb, arguments->config);
  verb->add_option("--device", arguments->device,
                   "Whether a device (cpu, cuda, or another of torch's) does what training asks of "
                   "it, instead; exit status 3 if not");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action, &program] {
    arguments->overrides = take_overrides(*verb);
    action = [=, &program] { return run_doctor(*arguments, program); };
  });
}

}  // namespace accrue::cli
