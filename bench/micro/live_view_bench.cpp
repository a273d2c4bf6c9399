// What the live view costs: a step that is told to it, and a drawing.
#include <benchmark/benchmark.h>

#include <sstream>

#include "observe/progress_sink.h"

namespace accrue::observe {
namespace {

/// A run of 10,000 steps on a terminal of 120 x 40, by a clock that each step moves on.
void tell_steps(benchmark::State& state, double seconds_a_step) {
  std::ostringstream terminal;
  double now = 0;
  ProgressSink sink(terminal, {.style = ProgressStyle::live,
                               .clock = [&] { return now; },
                               .size = [] { return TerminalSize{.columns = 120, .rows = 40}; },
                               .utf8 = true,
                               .colours = true});
  sink.on_start({.total_steps = 10'000, .summary = "gpt2", .batch = "64 samples"});
  StepReport report;
  for (auto _ : state) {
    now += seconds_a_step;
    report.step = report.step % 10'000 + 1;
    report.loss = 10.0 / static_cast<double>(report.step);
    report.tokens_per_second = 12'345;
    report.peak_bytes = report.budget_bytes = std::int64_t{1} << 30;
    report.seconds = seconds_a_step;
    sink.on_step(report);
    terminal.str("");
  }
}

void step_that_draws(benchmark::State& state) { tell_steps(state, 1); }
void step_between_drawings(benchmark::State& state) { tell_steps(state, 1e-6); }

BENCHMARK(step_that_draws);
BENCHMARK(step_between_drawings);

}  // namespace
}  // namespace accrue::observe
