#include "verify/doctor/doctor.h"

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/program.h"

namespace accrue::cli {
namespace {

struct DoctorArguments {
  std::string config;
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
    std::printf("%-8s %s: %s\n", std::string(proof::to_string(finding.severity)).c_str(),
                finding.id.c_str(), finding.message.c_str());
    if (!finding.advice.empty()) std::printf("         try %s\n", finding.advice.c_str());
  }
  if (examination.findings.empty()) std::printf("Nothing to say against this run.\n");
}

int run_doctor(const DoctorArguments& arguments, const Program& program) {
  const train::Config config = program.load_config(arguments.config, arguments.overrides);
  const proof::Examination examination = proof::doctor(
      config, {.progress = [](const std::string& what) { std::cerr << what << std::endl; }});
  if (arguments.json) {
    std::cout << to_json(examination).dump(2) << std::endl;
  } else {
    print(examination);
  }
  return 0;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action, const Program& program) {
  CLI::App* verb = app.add_subcommand("doctor", "Look at a run before it starts, and give advice");
  verb->allow_extras();
  verb->footer(
      "Checks the config, the labels of the first batch, the model's layers, and the speed of a\n"
      "few micro-batches. Findings do not change the exit status. Nothing is written but\nthe "
      "tokens of text, beside run.out.\n\n"
      "Example:\n"
      "  accrue doctor gpt.toml --precision.compute=bf16 --json");
  auto arguments = std::make_shared<DoctorArguments>();
  verb->add_option("CONFIG", arguments->config, "Config file (TOML)")->required();
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action, &program] {
    arguments->overrides = take_overrides(*verb);
    action = [=, &program] { return run_doctor(*arguments, program); };
  });
}

}  // namespace accrue::cli
