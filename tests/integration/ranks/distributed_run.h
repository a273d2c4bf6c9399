#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "distributed/ranks.h"
#include "support/tolerance.h"
#include "train/tiny_run.h"
#include "train/workload/workload.h"

namespace accrue::train::testing {

using accrue::testing::wait_until;
using Words = std::vector<std::string>;
using accrue::testing::Program;

/// The exit code of a process that was stopped by a signal.
inline constexpr int kInterrupted = 130;

/// Runs of the command line by several processes.
class DistributedRun : public TinyRun {
 protected:
  Config small(const std::string& out) const {
    Config c = config(out);
    c.run.threads = 1;
    c.run.eval_every = Duration{3, Duration::Unit::steps};
    c.run.checkpoint_every = {3, Duration::Unit::steps};
    c.optim.kind = train::OptimizerKind::sgd;
    c.optim.lr = 0.1;  // so that each parameter moves by many of its roundings
    c.dist.timeout = {120, Duration::Unit::seconds};
    return c;
  }

  static ::testing::AssertionResult evaluates_alike(const Config& c, const Config& expected) {
    return accrue::testing::close(eval_losses_of(c), eval_losses_of(expected), at::kFloat,
                                  *c.batch.tokens * *c.run.steps);
  }

  /// For each parameter, whether its change since the start is the expected one, up to the rounding
  /// of gradients' sums and of the parameter itself in each step. (The start is many times as large
  /// as the change.)
  static std::vector<::testing::AssertionResult> comparisons(const Config& c,
                                                             const NamedParameters& expected) {
    const NamedParameters start = open_workload(c).model->parameters(),
                          parameters = parameters_of(c);
    const auto steps = static_cast<double>(*c.run.steps);
    const accrue::testing::Tolerance tolerance = accrue::testing::tolerance(at::kFloat);
    std::vector<::testing::AssertionResult> results;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor from = start[i].tensor.detach().to(at::kCPU, at::kDouble);
      const at::Tensor actual = parameters[i].tensor.detach() - from,
                       way = expected[i].tensor.detach() - from;
      const double share =
          way.abs().max().item<double>() / expected[i].tensor.abs().max().item<double>();
      const double bound = tolerance.bound(*c.batch.tokens * *c.run.steps) +
                           2 * steps * tolerance.unit_roundoff / share;
      results.push_back(accrue::testing::within(actual, way, bound) << ": " << parameters[i].name);
    }
    return results;
  }

  static ::testing::AssertionResult are_close(const Config& c, const NamedParameters& expected) {
    for (const ::testing::AssertionResult& result : comparisons(c, expected))
      if (!result) return result;
    return ::testing::AssertionSuccess();
  }
  static ::testing::AssertionResult are_close(const Config& c, const Config& expected) {
    return are_close(c, parameters_of(expected));
  }

  /// The optimizer's state in the last checkpoint.
  static NamedParameters state_of(const Config& c) {
    const RunDirectory run(c.run.out);
    return models::read_safetensors(run.checkpoint(run.checkpoint_steps().back()) /
                                    "optimizer.safetensors")
        .tensors;
  }

  Words command(const Config& c, const Words& more = {}) const {
    const std::filesystem::path file = c.run.out + ".toml";
    write_file_atomically(file, to_toml(c));  // a rank that was started may be reading it
    Words words{ACCRUE_PROGRAM, "train", file.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::vector<Program::Result> run(const Config& c, int world, const Words& more = {}) const {
    const Words words = command(c, more);
    return accrue::testing::run_ranks(folder_, world, world, [&](int) { return words; });
  }

  void expect_runs(const Config& c, int world, const Words& more = {}) const {
    for (const Program::Result& result : run(c, world, more))
      EXPECT_EQ(result.status, 0) << result.errors;
  }

  /// One process, by the library in this one: no program has to be started.
  static void train_here(const Config& c) { Trainer(c).run(); }

  /// The need of a process with micro-batches of `samples` by its plan, plus what threads and
  /// connections of ranks may take.
  std::string budget_for(const Config& c, std::int64_t samples) const {
    const Words words{ACCRUE_PROGRAM,
                      "plan",
                      command(c)[2],
                      "--json",
                      "--batch.micro=" + std::to_string(samples),
                      "--memory.budget=1GiB"};
    const Program::Result result = Program(folder_, words).wait();
    EXPECT_EQ(result.status, 0) << result.errors;
    const nlohmann::json plan = nlohmann::json::parse(result.output);
    const std::int64_t bytes = plan["predicted_peak_bytes"].get<std::int64_t>() +
                               plan["outside_bytes"].get<std::int64_t>();
    return std::to_string(bytes / (1 << 20) + 12) + "MiB";
  }

  /// The lines of metrics.jsonl that have `key`.
  static std::vector<nlohmann::json> lines_with(const std::string& key, const Config& c) {
    std::vector<nlohmann::json> found;
    std::ifstream lines(RunDirectory(c.run.out).metrics_file());
    for (std::string line; std::getline(lines, line);)
      // The last line of a running run may be incomplete.
      if (auto json = nlohmann::json::parse(line, nullptr, false);
          !json.is_discarded() && json.contains(key))
        found.push_back(json);
    return found;
  }
  static std::vector<nlohmann::json> steps_of(const Config& c) { return lines_with("lr", c); }

  static std::int64_t steps_done(const Config& c) {
    const auto steps = steps_of(c);
    return steps.empty() ? 0 : steps.back()["step"].get<std::int64_t>();
  }

  static void expect_all_end(std::vector<Program>& ranks, int status) {
    for (Program& rank : ranks) {
      const Program::Result result = rank.wait();
      EXPECT_EQ(result.status, status) << result.errors;
    }
  }

  /// A run that only a signal ends; its parameters are those of any run of as many steps.
  Config endless(const std::string& out) const {
    Config c = small(out);
    c.run.steps = 100000;
    c.run.checkpoint_every = {100000, Duration::Unit::steps};
    c.run.eval_every.reset();
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    c.precision.accumulate = accum::Accumulation::fixed;
    return c;
  }
  /// Compares with a run of one process without limits that ended at the same step as `c`.
  void expect_bits_of_one_process(const Config& c) const {
    Config alone = c;
    alone.run.out = c.run.out + "-alone";
    alone.run.limits.clear();
    alone.dist = {};
    alone.run.steps = steps_of(c).back()["step"].get<std::int64_t>();
    train_here(alone);
    expect_same_bits(parameters_of(c), parameters_of(alone));
  }

  static void expect_same_steps(const Config& c, const Config& undisturbed) {
    const auto steps = steps_of(c), expected = steps_of(undisturbed);
    ASSERT_EQ(steps.size(), expected.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const char* key : {"step", "samples", "tokens", "weight", "batch_samples"})
        EXPECT_EQ(steps[i][key], expected[i][key]) << key << " of step " << i + 1;
  }
  /// Each step is there once, with the samples and the gradient of the undisturbed run.
  static void expect_same_run(const Config& c, const Config& undisturbed) {
    expect_same_bits(parameters_of(c), parameters_of(undisturbed));
    expect_same_steps(c, undisturbed);
    const auto steps = steps_of(c), expected = steps_of(undisturbed);
    for (std::size_t i = 0; i < steps.size(); ++i)
      EXPECT_EQ(steps[i]["grad_norm"], expected[i]["grad_norm"]) << "of step " << i + 1;
  }

  /// The losses of the evaluations, in their order.
  static at::Tensor eval_losses_of(const Config& c) {
    std::vector<double> losses;
    for (const nlohmann::json& line : lines_with("eval_loss", c))
      losses.push_back(line["eval_loss"]);
    return at::tensor(losses, at::kDouble);
  }

  static std::vector<nlohmann::json> events_of(const std::string& name, const Config& c) {
    std::vector<nlohmann::json> events = lines_with("event", c);
    std::erase_if(events, [&](const nlohmann::json& line) { return line["event"] != name; });
    return events;
  }

  static nlohmann::json ranks_in_checkpoint(const Config& c, std::int64_t step) {
    return nlohmann::json::parse(
        read_file(RunDirectory(c.run.out).checkpoint(step) / "state.json"))["ranks"];
  }

  static void wait_for_metrics(const Config& c) {
    wait_until([&] { return !steps_of(c).empty(); });
  }
};

}  // namespace accrue::train::testing
