#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "accrue/core/units.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/output/offload_note.h"
#include "cli/output/print_text.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/process/program.h"
#include "cli/verbs/bench_sweeps.h"
#include "core/words.h"
#include "train/measure/benchmark.h"
#include "train/measure/micro_sweep.h"
#include "train/measure/profile.h"

namespace accrue::cli {
namespace {

using cli::print;  // those of bench_sweeps.h, besides those below
using cli::to_json;

struct BenchArguments {
  std::string config;
  std::int64_t rounds = 5;
  bool json = false;
  bool profile = false;
  bool sweep_micro = false;
  bool sweep_lr = false;
  bool sweep_batch = false;
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
  out["system_allocations_per_micro_batch"] = r.system_allocations;
  out["page_faults_per_micro_batch"] = r.minor_page_faults;
  out["loss"] = r.loss;
  if (r.model_gflops) out["model_gflops"] = *r.model_gflops;
  out["ceiling_gflops"] = r.ceiling_gflops;
  out["peak_gflops"] = r.peak_gflops;
  if (r.share_of_ceiling) out["share_of_ceiling"] = *r.share_of_ceiling;
  return out;
}

void print_spread(const char* name, const train::Spread& spread, int decimals) {
  print_text("%-24s%.*f   (%.*f to %.*f)\n", name, decimals, spread.median, decimals, spread.min,
             decimals, spread.max);
}

void print(const train::BenchmarkResult& r) {
  print_text("%-24s%s parameters, %s of %lld %s\n", "model",
             format_count(static_cast<double>(r.parameters)).c_str(),
             counted(r.micro_batches, "micro-batch").c_str(),
             static_cast<long long>(r.micro_batch_tokens), r.images ? "images" : "tokens");
  print_spread(r.images ? "images/s" : "tokens/s", r.tokens_per_second, 0);
  print_spread("s per micro-batch", r.seconds_per_micro_batch, 5);
  print_spread("s per bare micro-batch", r.bare_seconds_per_micro_batch, 5);
  print_text("%-24s%+.2f%% (median of rounds)\n", "accumulation overhead",
             100 * r.accumulation_overhead);
  print_spread("s per optimizer step", r.optimizer_seconds, 5);
  print_text("%-24s%s of tensors, %s resident\n", "peak memory", format_bytes(r.peak_bytes).c_str(),
             format_bytes(r.peak_resident_bytes).c_str());
  print_text("%-24s%.1f page faults and %.2f allocations from the system per micro-batch\n", "",
             r.minor_page_faults, r.system_allocations);
  if (r.model_gflops && r.share_of_ceiling)
    print_text("%-24s%.0f GFLOP/s, %.0f%% of the ceiling\n", "speed", *r.model_gflops,
               100 * *r.share_of_ceiling);
  print_text("%-24s%.0f GFLOP/s at the model's shapes, %.0f at 2048^3\n", "ceiling",
             r.ceiling_gflops, r.peak_gflops);
}

nlohmann::json to_json(const train::MicroSweep& sweep) {
  nlohmann::json sizes = nlohmann::json::array();
  for (const train::SweptSize& size : sweep.sizes) {
    nlohmann::json& out = sizes.emplace_back();
    out["micro_batch"] = size.micro_batch;
    out["micro_batches"] = size.micro_batches;
    out["fits"] = size.fits;
    if (!size.fits) continue;
    out["seconds"] = to_json(size.seconds);
    out["relative_seconds"] = size.relative_seconds;
    out["peak_bytes"] = size.peak_bytes;
    out["relative_peak_bytes"] = size.relative_peak_bytes;
  }
  return {{"batch_samples", sweep.batch_samples}, {"sizes", std::move(sizes)}};
}

void print(const train::MicroSweep& sweep) {
  print_text("%lld %s a step, relative to the largest micro-batch that fits\n",
             static_cast<long long>(sweep.batch_samples), sweep.images ? "images" : "samples");
  print_text("%-14s%12s%10s%14s%10s\n", "micro-batches", "s per step", "time", "peak memory",
             "memory");
  for (const train::SweptSize& size : sweep.sizes) {
    const std::string split =
        std::to_string(size.micro_batches) + " x " + std::to_string(size.micro_batch);
    if (!size.fits) {
      print_text("%-14s%12s\n", split.c_str(), "does not fit");
      continue;
    }
    print_text("%-14s%12.4f%+9.1f%%%14s%+9.1f%%\n", split.c_str(), size.seconds.median,
               100 * (size.relative_seconds - 1), format_bytes(size.peak_bytes).c_str(),
               100 * (size.relative_peak_bytes - 1));
  }
}

nlohmann::json to_json(const train::Profile& profile) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const train::KernelCost& cost : profile.kernels) {
    nlohmann::json& out = kernels.emplace_back();
    out["kernel"] = cost.kernel;
    out["part"] = cost.part;
    out["calls"] = cost.calls;
    out["seconds"] = cost.seconds;
    if (cost.bytes > 0) out["bytes"] = cost.bytes;
    if (cost.gflops > 0) out["gflops"] = cost.gflops;
    if (cost.share_of_ceiling > 0) out["share_of_ceiling"] = cost.share_of_ceiling;
  }
  nlohmann::json parts = nlohmann::json::array();
  for (const train::Profile::Part& part : profile.parts)
    parts.push_back({{"part", part.name}, {"seconds", part.seconds}});
  return {{"micro_batch", profile.micro_batch}, {"micro_batches", profile.micro_batches},
          {"seconds", profile.seconds},         {"rest_seconds", profile.rest_seconds},
          {"peak_gflops", profile.peak_gflops}, {"bandwidth_gbps", profile.bandwidth_gbps},
          {"parts", std::move(parts)},          {"kernels", std::move(kernels)}};
}

void print(const train::Profile& profile) {
  print_text("%.3f ms per micro-batch of %lld, with its part of the optimizer step\n",
             1e3 * profile.seconds, static_cast<long long>(profile.micro_batch));
  print_text("ceilings: %.0f GFLOP/s (matrix product 2048^3), %.1f GB/s (memory)\n\n",
             profile.peak_gflops, profile.bandwidth_gbps);
  const auto percent_of_all = [&](double seconds) { return 100 * seconds / profile.seconds; };
  const auto rest = [&](const char* name, double seconds) {
    print_text("%-36s%8s%10.3f%7.1f%%\n", name, "", 1e3 * seconds, percent_of_all(seconds));
  };
  constexpr const char* kOutside = "outside: autograd, data, bookkeeping";
  print_text("%-36s%8s%10s%8s\n", "part", "", "ms", "share");
  for (const train::Profile::Part& part : profile.parts) rest(part.name.c_str(), part.seconds);
  rest(kOutside, profile.rest_seconds);
  print_text("\n%-36s%8s%10s%8s%10s%10s%9s\n", "kernel", "calls", "ms", "share", "MB", "GFLOP/s",
             "ceiling");
  constexpr double kLeastShareShown = 0.1;
  double small = 0;
  for (const train::KernelCost& cost : profile.kernels) {
    if (percent_of_all(cost.seconds) < kLeastShareShown) {
      small += cost.seconds;
      continue;
    }
    const bool says_so = cost.kernel.find("backward") != std::string::npos;
    const std::string name = cost.kernel + (cost.in_backward && !says_so ? ", backward" : "");
    print_text("%-36s%8lld%10.3f%7.1f%%", name.c_str(), static_cast<long long>(cost.calls),
               1e3 * cost.seconds, percent_of_all(cost.seconds));
    const auto column = [](double value, const char* format, int width) {
      value > 0 ? print_text(format, value) : print_text("%*s", width, "");
    };
    column(static_cast<double>(cost.bytes) / 1e6, "%10.2f", 10);
    column(cost.gflops, "%10.1f", 10);
    column(100 * cost.share_of_ceiling, "%8.0f%%", 9);
    print_text("\n");
  }
  rest("kernels below 0.1%", small);
  rest(kOutside, profile.rest_seconds);
}

template <class Result>
int report(const BenchArguments& arguments, const Result& result) {
  if (arguments.json) {
    std::cout << to_json(result).dump(2) << std::endl;
  } else {
    print(result);
  }
  return 0;
}

int run_bench(const BenchArguments& arguments, const Program& program) {
  const train::Config config = program.load_config(arguments.config, arguments.overrides);
  note_offload(config, "bench");
  const train::BenchmarkOptions options{.rounds = arguments.rounds};
  const auto measured = [&](const auto& measure) {
    return report(arguments, during(progress_on_stderr(), "measuring", measure));
  };
  if (arguments.profile) return measured([&] { return train::profile(config); });
  if (arguments.sweep_micro) return measured([&] { return train::sweep_micro(config, options); });
  if (arguments.sweep_lr) return measured([&] { return train::sweep_rate(config); });
  if (arguments.sweep_batch) return measured([&] { return train::sweep_batch(config); });
  return measured([&] { return train::benchmark(config, options); });
}

}  // namespace

void add_bench(CLI::App& app, Action& action, const Program& program) {
  CLI::App* verb = app.add_subcommand("bench", "Measure speed, memory and what accumulation costs");
  verb->allow_extras();
  set_help(
      *verb,
      {.heading = heading::prove,
       .text =
           "Accumulated windows, the same micro-batches without keeping gradients (bare), and "
           "matrix products of the model's shapes run in turn, in one process. Nothing is written.",
       .examples = {"accrue bench gpt.toml --batch.micro=4 --json",
                    "accrue bench gpt.toml --profile"}});
  auto arguments = std::make_shared<BenchArguments>();
  add_needed_config(*verb, arguments->config);
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  CLI::Option* rounds = verb->add_option("--rounds", arguments->rounds, "How often each is run")
                            ->capture_default_str();
  CLI::Option* profile = verb->add_flag("--profile", arguments->profile,
                                        "The time of a micro-batch by kernel instead, with "
                                        "its share of the machine's ceiling");
  profile->excludes(rounds);
  CLI::Option* sweep_micro = verb->add_flag("--sweep-micro", arguments->sweep_micro,
                                            "The cost of the split instead: the batch in one pass, "
                                            "as two, ..., as single samples")
                                 ->excludes(profile);
  CLI::Option* sweep_lr =
      verb->add_flag("--sweep-lr", arguments->sweep_lr,
                     "How high a learning rate may be instead: one step at each of many rates");
  CLI::Option* sweep_batch = verb->add_flag(
      "--sweep-batch", arguments->sweep_batch,
      "What the batch gains instead: short trainings with a quarter of it to four times as much");
  for (CLI::Option* other : {rounds, profile, sweep_micro}) {
    sweep_lr->excludes(other);
    sweep_batch->excludes(other);
  }
  sweep_lr->excludes(sweep_batch);
  verb->callback([=, &action, &program] {
    expect_config(arguments->config);
    arguments->overrides = take_overrides(*verb);
    action = [=, &program] { return run_bench(*arguments, program); };
  });
}

}  // namespace accrue::cli
