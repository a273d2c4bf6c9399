// The files that runs leave in their folders, as accrue runs, compare and report read them.
#include <algorithm>

#include "fuzz_targets.h"
#include "observe/history/run_history.h"
#include "observe/history/run_result.h"
#include "scratch.h"

namespace accrue::fuzz {
namespace {

void read_all(const std::filesystem::path& root) {
  const observe::RunHistory run = observe::read_run(root);
  const auto& steps = run.table.steps;
  expect(std::ranges::adjacent_find(steps, std::ranges::greater_equal()) == steps.end(),
         "steps ascend");
  for (const auto& [name, values] : run.table.columns)
    expect(values.size() == steps.size(), "a column has a value for each step");
  expect(std::ranges::is_sorted(run.evaluations, {}, &observe::EvaluationPoint::step),
         "evaluations ascend");
  observe::result_of(run);
  observe::flat_config(run);
}

}  // namespace

void fuzz_metrics(Input input) { read_all(put("metrics/metrics.jsonl", input).parent_path()); }

void fuzz_run_json(Input input) { read_all(put("run_json/run.json", input).parent_path()); }

}  // namespace accrue::fuzz
