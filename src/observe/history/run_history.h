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

  /// The column with this name; none if no step has it.
  const std::vector<double>* column(const std::string& name) const;
};

/// Whether a column has any value.
bool has_value(const std::vector<double>& column);

struct EvaluationPoint {
  std::int64_t step = 0;
  double time = 0;  ///< Unix time in seconds; NaN if the line has none
  double loss = 0;
  std::optional<double> accuracy;
};

struct EventPoint {
  std::int64_t step = 0;
  double time = 0;  ///< as for an evaluation
  std::string name;
  std::string reason;
};

enum class RunState {
  running,      ///< a living process holds the run's claim
  done,         ///< it reached its end
  interrupted,  ///< it was asked to stop, and recorded that
  stopped,      ///< neither: it failed, was killed, or the machine went down
};

inline constexpr auto run_state_words =
    enum_words<RunState>({{RunState::running, "running"},
                          {RunState::done, "done"},
                          {RunState::interrupted, "interrupted"},
                          {RunState::stopped, "stopped"}});

/// The history in a run folder, as far as it exists.
struct RunHistory {
  std::filesystem::path root;
  std::string name;  ///< the folder's; make_names_differ() if there are several
  RunState state = RunState::stopped;
  std::optional<std::int64_t> total_steps;  ///< the run's length, if known
  std::string run_json;                     ///< run.json, a JSON object; "" if there is none
  std::string config_toml;                  ///< config.toml; "" if there is none
  StepTable table;
  std::vector<EvaluationPoint> evaluations;  ///< ascending; for each step the last
  std::vector<EventPoint> events;            ///< in the order in which they were written
  std::vector<std::string> remarks;          ///< what is missing or was left out, for people
  /// The remarks on files that exist but are not as the run wrote them: their contents may be
  /// wrong.
  std::vector<std::string> changes;
};

/// Whether the folder has what every run has: run.json or metrics.jsonl.
bool is_run(const std::filesystem::path& folder);

/// Reads a run, even a running one. Lines that are torn or of another version are left out, with a
/// remark; if a step occurs twice (a run that went back), the later line and those after it count.
/// Throws a usage Error if `root` is not a run folder.
RunHistory read_run(const std::filesystem::path& root);

/// Reads several runs, on as many threads as this process is allowed, and makes their names unique.
std::vector<RunHistory> read_runs(const std::vector<std::filesystem::path>& roots);

/// Prefixes the names with as many parent folders as necessary to distinguish the runs: "a/run" and
/// "b/run".
void make_names_differ(std::vector<RunHistory>& runs);

/// The run's config as dotted keys and their values in JSON, strings without quotes
/// ("optim.lr" -> "0.0003"): from run.json's `config`, else from config.toml; empty if neither
/// has one.
std::map<std::string, std::string> flat_config(const RunHistory& run);

}  // namespace accrue::observe
