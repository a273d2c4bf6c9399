#include "train/workload/run_length.h"

#include <cstdio>

#include "accrue/core/error.h"
#include "train/workload/batch_changes.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

bool have_same_length(const RunConfig& a, const RunConfig& b) {
  return a.steps == b.steps && a.tokens == b.tokens && a.epochs == b.epochs;
}

struct Words {
  std::string key, value;
};

Words words_of(const RunConfig& run) {
  if (run.steps) return {"run.steps", std::to_string(*run.steps)};
  if (run.tokens) return {"run.tokens", std::to_string(*run.tokens)};
  char epochs[32];
  std::snprintf(epochs, sizeof epochs, "%g", run.epochs.value_or(0));
  return {"run.epochs", epochs};
}

/// "run.steps 100 -> 200", for people.
std::string change_in_words(const RunConfig& before, const RunConfig& after,
                            std::int64_t windows_before, std::int64_t windows_after) {
  const Words old_words = words_of(before), new_words = words_of(after);
  std::string text = old_words.key + " " + old_words.value + " -> ";
  if (new_words.key != old_words.key) text += new_words.key + " ";
  text += new_words.value;
  if (before.steps && after.steps) return text;
  return text + " (" + std::to_string(windows_before) + " -> " + std::to_string(windows_after) +
         " steps)";
}

}  // namespace

std::string rate_in_words(const Config& config, const Horizon& horizon, std::int64_t windows_before,
                          std::int64_t step) {
  Horizon former = horizon;
  former.total_steps = windows_before;
  const double before = make_learning_rate(config, former).at(step);
  const double after = make_learning_rate(config, horizon).at(step);
  char change[80];
  if (before == after) {
    std::snprintf(change, sizeof change, "stays %.4g", after);
  } else {
    std::snprintf(change, sizeof change, "goes from %.4g to %.4g", before, after);
  }
  return "the learning rate of step " + std::to_string(step + 1) + " " + change;
}

void expect_batch_to_take(const LengthDecision& decision, const Config& config) {
  if (!decision.changes || !depends_on_run_length(config)) return;
  throw usage_error("resume with another length", "a batch that changes at steps, tokens or epochs",
                    "one that changes by parts of the run (percent, or adapt.batch = \"seesaw\")",
                    "the length that the run began with, or a new run");
}

Config with_length_of(Config config, const Config& other) {
  config.run.steps = other.run.steps;
  config.run.tokens = other.run.tokens;
  config.run.epochs = other.run.epochs;
  return config;
}

std::string length_in_words(const RunConfig& run) {
  const Words words = words_of(run);
  return words.key + " = " + words.value;
}

std::string done_in_words(std::int64_t step, const RunConfig& run) {
  RunConfig longer = run;
  if (run.steps) longer.steps = 2 * *run.steps;
  if (run.tokens) longer.tokens = 2 * *run.tokens;
  if (run.epochs) longer.epochs = 2 * *run.epochs;
  const Words words = words_of(longer);
  return "done at step " + std::to_string(step) + "; to go on longer: --resume --" + words.key +
         "=" + words.value;
}

LengthDecision decide_length(const Config& started, const Config& stated,
                             const batch::WindowSchedule& schedule, bool may_shorten) {
  LengthDecision decision{.config = stated, .windows_before = total_windows(started, schedule)};
  if (have_same_length(started.run, stated.run)) return decision;
  const std::int64_t after = total_windows(stated, schedule);
  if (after < decision.windows_before && !may_shorten) {
    decision.config = with_length_of(stated, started);
    decision.reason = length_in_words(started.run) + ", which the run has, and not " +
                      length_in_words(stated.run) +
                      " as the config file says: only the command line makes a run shorter";
    return decision;
  }
  decision.changes = true;
  decision.reason = change_in_words(started.run, stated.run, decision.windows_before, after);
  return decision;
}

}  // namespace accrue::train
