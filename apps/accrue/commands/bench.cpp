#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/train/benchmark.h"
#include "commands/command_line.h"
#include "commands/commands.h"

namespace accrue::cli {
namespace {

struct BenchArguments {
  std::string config;
  std::int64_t rounds = 5;
  bool json = false;
  bool profile = false;
  bool sweep_micro = false;
  std::vector<std::string> overrides;
};

nlohmann::json to_json(const train::Spread& spread) {
  return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
}

nlohmann::json to_json(const train::BenchmarkResult& r) {
  nlohmann::json out;
  out["parameters"] = r.parameters;
  out["micro_batch"] = r.micro_batch;
  out["micro_batches"] = r.micro_batches;
  out["recompute"] = to_string(r.recompute);
  if (!r.images) out["micro_batch_tokens"] = r.micro_batch_tokens;
  out[r.images ? "images_per_second" : "tokens_per_second"] = to_json(r.tokens_per_second);
  out["bare_seconds_per_micro_batch"] = to_json(r.bare_seconds_per_micro_batch);
  out["seconds_per_micro_batch"] = to_json(r.seconds_per_micro_batch);
  out["accumulation_overhead"] = r.accumulation_overhead;
  out["optimizer_seconds"] = to_json(r.optimizer_seconds);
  out["peak_bytes"] = r.peak_bytes;
  out["peak_resident_bytes"] = r.peak_resident_bytes;
  out["loss"] = r.loss;
  out["model_gflops"] = r.model_gflops;
  out["ceiling_gflops"] = r.ceiling_gflops;
  out["peak_gflops"] = r.peak_gflops;
  out["share_of_ceiling"] = r.share_of_ceiling;
  return out;
}

void print_spread(const char* name, const train::Spread& spread, const char* format) {
  std::printf("%-24s", name);
  std::printf(format, spread.median);
  std::printf("   (");
  std::printf(format, spread.min);
  std::printf(" to ");
  std::printf(format, spread.max);
  std::printf(")\n");
}

void print(const train::BenchmarkResult& r) {
  std::printf("%-24s%s parameters, %lld micro-batches of %lld %s\n", "model",
              format_count(static_cast<double>(r.parameters)).c_str(),
              static_cast<long long>(r.micro_batches), static_cast<long long>(r.micro_batch_tokens),
              r.images ? "images" : "tokens");
  print_spread(r.images ? "images/s" : "tokens/s", r.tokens_per_second, "%.0f");
  print_spread("s per micro-batch", r.seconds_per_micro_batch, "%.5f");
  print_spread("s per bare micro-batch", r.bare_seconds_per_micro_batch, "%.5f");
  std::printf("%-24s%+.2f%% (median of rounds)\n", "accumulation overhead",
              100 * r.accumulation_overhead);
  print_spread("s per optimizer step", r.optimizer_seconds, "%.5f");
  std::printf("%-24s%s of tensors, %s resident\n", "peak memory",
              format_bytes(r.peak_bytes).c_str(), format_bytes(r.peak_resident_bytes).c_str());
  std::printf("%-24s%.0f GFLOP/s of %.0f at the model's shapes (%.0f%%), %.0f at 2048^3\n", "speed",
              r.model_gflops, r.ceiling_gflops, 100 * r.share_of_ceiling, r.peak_gflops);
}

void refuse_later_options(const BenchArguments& arguments) {
  if (!arguments.profile && !arguments.sweep_micro) return;
  throw usage_error("bench", "options of this version",
                    arguments.profile ? "--profile, which is not in this version"
                                      : "--sweep-micro, which is not in this version",
                    "accrue bench CONFIG [--json]");
}

int run_bench(const BenchArguments& arguments) {
  refuse_later_options(arguments);
  train::Config config = train::load_config(arguments.config, arguments.overrides);
  const train::BenchmarkResult result = train::benchmark(config, {.rounds = arguments.rounds});
  if (arguments.json) {
    std::cout << to_json(result).dump(2) << std::endl;
  } else {
    print(result);
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("bench", "Measure speed, accumulation overhead and memory");
  verb->allow_extras();
  verb->footer(
      "Accumulated windows, the same micro-batches without keeping gradients (bare), and matrix\n"
      "products of the model's shapes are run in turn, in one process; nothing is written.\n\n"
      "Example:\n"
      "  accrue bench gpt.toml --batch.micro=4 --json");
  auto arguments = std::make_shared<BenchArguments>();
  verb->add_option("CONFIG", arguments->config, "Config file (TOML)")->required();
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->add_option("--rounds", arguments->rounds, "How often each is run")->capture_default_str();
  verb->add_flag("--profile", arguments->profile)->group("");
  verb->add_flag("--sweep-micro", arguments->sweep_micro)->group("");
  verb->callback([=, &action] {
    arguments->overrides = take_overrides(*verb);
    action = [=] { return run_bench(*arguments); };
  });
}

}  // namespace accrue::cli
