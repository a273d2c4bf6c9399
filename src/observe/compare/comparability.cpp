#include "observe/compare/comparability.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/words.h"

namespace accrue::observe {
namespace {

using Runs = std::vector<RunResult>;
using Names = std::vector<std::string>;

Runs joined(const Runs& runs, const Runs& baseline) {
  Runs all = runs;
  all.insert(all.end(), baseline.begin(), baseline.end());
  return all;
}

Names names_where(const Runs& runs, const std::function<bool(const RunResult&)>& is_so) {
  Names names;
  for (const RunResult& run : runs)
    if (is_so(run)) names.push_back(run.name);
  return names;
}

bool was_evaluated(const RunResult& run) { return run.eval_loss || run.diverged; }

std::string position(const RunResult& run) {
  if (!run.last_step) return "no step";
  std::string text = "step " + digit_groups(*run.last_step);
  if (run.total_steps) text += " of " + digit_groups(*run.total_steps);
  return text;
}

void remark_on_state(const Runs& runs, Names& remarks) {
  for (const RunResult& run : runs)
    if (run.state != RunState::done)
      remarks.push_back(run.name + " is " + std::string(run_state_words.of(run.state)) + ", at " +
                        position(run));
}

void remark_on_measure(const Runs& runs, LossMeasure measure, Names& remarks) {
  if (measure == LossMeasure::eval_loss) return;
  const Names without = names_where(runs, [](const RunResult& r) { return !was_evaluated(r); });
  if (without.size() == runs.size()) return;
  remarks.push_back("losses are those of training, as there is no evaluation of " +
                    listed(without, "and"));
}

void remark_on_steps(const Runs& runs, LossMeasure measure, Names& remarks) {
  std::map<std::int64_t, Names> runs_by_step;
  for (const RunResult& run : runs) {
    const auto step = measure == LossMeasure::eval_loss ? run.eval_step : run.last_step;
    if (step) runs_by_step[*step].push_back(run.name);
  }
  if (runs_by_step.size() < 2) return;
  Names steps;
  for (const auto& [step, names] : runs_by_step)
    steps.push_back(digit_groups(step) + " (" + listed(names, "and") + ")");
  remarks.push_back("losses are of different steps: " + listed(steps, "and"));
}

/// Adds the remark `what` if runs that have a text for this member do not all have the same.
void remark_on_difference(const Runs& runs, std::string RunResult::*text, const std::string& what,
                          Names& remarks) {
  std::set<std::string> told;
  for (const RunResult& run : runs)
    if (!(run.*text).empty()) told.insert(run.*text);
  if (told.size() > 1) remarks.push_back(what);
}

}  // namespace

LossMeasure loss_measure(const Runs& runs, const Runs& baseline) {
  return std::ranges::all_of(joined(runs, baseline), was_evaluated) ? LossMeasure::eval_loss
                                                                    : LossMeasure::train_loss;
}

Names diverged_runs(const Runs& runs, const Runs& baseline) {
  return names_where(joined(runs, baseline), [](const RunResult& run) { return run.diverged; });
}

Names remarks_on(const Runs& runs, const Runs& baseline) {
  const Runs all = joined(runs, baseline);
  const LossMeasure measure = loss_measure(runs, baseline);
  Names remarks;
  remark_on_state(all, remarks);
  remark_on_measure(all, measure, remarks);
  remark_on_steps(all, measure, remarks);
  remark_on_difference(all, &RunResult::evaluated_on, "the runs are evaluated on different data",
                       remarks);
  remark_on_difference(all, &RunResult::machine, "the runs are of different machines", remarks);
  return remarks;
}

}  // namespace accrue::observe
