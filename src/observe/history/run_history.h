#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/enum_words.h"

namespace accrue::observe {

/// Numbers by optimizer step: `NaN` if a step did not have the value.
struct StepTable {
  std::vector<std::int64_t> steps;  ///< ascending, each once
  /// Each is as long as `steps`. Names are those of metrics.jsonl (docs/design.md, section 5);
  /// nested ones have dots: "memory.parameters", "micro_batch_seconds.median", "losses.lm".
  std::map<std::string, std::vector<double>> columns;

  /// The column of this name; none if no step has it.
  const std::vector<double>* column(const std::string& name) const;
};

/// Whether a column has a value at all.
bool has_value(const std::vector<double>& column);

struct EvaluationPoint {
  std::int64_t step = 0;
  double time = 0;  ///< Unix time in seconds; NaN if the line has none
  double loss = 0;
  std::optional<double> accuracy;
};

struct EventPoint {
  std::int64_t step = 0;
  double time = 0;  ///< as that of an evaluation
  std::string name;
  std::string reason;
};

enum class RunState {
  running,      ///< a living process holds the run's claim
  done,         ///< it came to its end
  interrupted,  ///< it was asked to stop, and says so
  stopped,      ///< neither: it failed, was killed, or the machine went down
};

inline constexpr auto run_state_words =
    enum_words<RunState>({{RunState::running, "running"},
                          {RunState::done, "done"},
                          {RunState::interrupted, "interrupted"},
                          {RunState::stopped, "stopped"}});

/// What a run folder tells, as far as it is there.
struct RunHistory {
  std::filesystem::path root;
  std::string name;  ///< the folder's; make_names_differ() if there are several
  RunState state = RunState::stopped;
  std::optional<std::int64_t> total_steps;  ///< the run's length, where it is known
  std::string run_json;                     ///< run.json, a JSON object; "" if there is none
  std::string config_toml;                  ///< config.toml; "" if there is none
  StepTable table;
  std::vector<EvaluationPoint> evaluations;  ///< ascending, of each step the last
  std::vector<EventPoint> events;            ///< in the order in which they were written
  std::vector<std::string> remarks;          ///< what is missing or was left out, for people
  /// Of the remarks, those on files that are there and not as the run wrote them: what they hold
  /// may be wrong.
  std::vector<std::string> changes;
};

/// Whether the folder has what every run has: run.json or metrics.jsonl.
bool is_run(const std::filesystem::path& folder);

/// Reads a run, also one that is running. What is torn or of another version is left out, and
/// `remarks` says so; if a step is there twice (a run that went back), the later line and what
/// follows it count. Throws a usage Error if `root` is no run folder.
RunHistory read_run(const std::filesystem::path& root);

/// Reads several runs, on as many threads as this process is granted, and makes their names differ.
std::vector<RunHistory> read_runs(const std::vector<std::filesystem::path>& roots);

/// Puts as many of the folders above before the names as it takes to tell the runs apart:
/// "a/run" and "b/run".
void make_names_differ(std::vector<RunHistory>& runs);

/// The run's config as dotted keys and their values as JSON has them, strings without quotes
/// ("optim.lr" -> "0.0003"): from run.json's `config`, else from config.toml; empty if neither
/// has one.
std::map<std::string, std::string> flat_config(const RunHistory& run);

}  // namespace accrue::observe
