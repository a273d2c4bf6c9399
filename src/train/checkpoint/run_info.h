#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "accrue/train/config.h"
#include "train/checkpoint/batch_change.h"
#include "train/checkpoint/environment.h"

namespace accrue::train {

/// The time in UTC in ISO 8601 format, to the second.
std::string now_iso();

/// The files that a run reads.
struct RunData {
  std::vector<data::DataFile> train;
  std::vector<data::DataFile> val;  ///< empty if the held-out samples are of the training files
};

/// The record of a new run's beginning in run.json, so that the run can be repeated.
struct RunInfo {
  Config config;                     ///< as in the run's config.toml
  std::vector<std::string> command;  ///< as typed
  RunEnvironment environment;
  RunData data;
  const nlohmann::json& plan;  ///< to_json(RunPlan)
  std::int64_t total_steps = 0;
  std::int64_t parameters = 0;
  bool counts_tokens = true;  ///< the unit: tokens, or samples if samples have no tokens
  std::string start;          ///< digest of the initial parameters
  std::string module = {};    ///< models::TorchScriptModel::digest()
  std::map<std::string, std::string> tokenizer = {};  ///< KeptTokenizer::digests()
  /// The run that this one repeats, and what differs from it; an empty path if it repeats none.
  std::string repeats;
  std::vector<std::string> differences = {};
  /// Of the run that this one repeats: how its batch was changed by hand.
  std::vector<BatchChange> batch_changes = {};
};

/// run.json of a new run.
std::string describe_run(const RunInfo& info);

/// The changes that a resumption makes to a run.
struct Resumption {
  std::int64_t step = 0;  ///< the step it continues from
  std::vector<std::string> command;
  Config config;  ///< as config.toml has it from then on
  std::vector<ConfigDifference> changes = {};
  RunEnvironment environment;
  RunData data;
  bool data_changed = false;
  std::string module = {};  ///< models::TorchScriptModel::digest()
  /// Of the resumed state, and so of the run from then on.
  optim::ScheduleVersion schedule = optim::ScheduleVersion::min_after_last_step;
  /// All changes of the batch that were stated by hand, this resumption's among them.
  std::vector<BatchChange> batch_changes = {};
};

/// Returns `run_json` with this resumption added to its "resumed" list and its changes applied. A
/// run that had ended is no longer marked as ended.
std::string add_resumption(const std::string& run_json, const Resumption& resumption);

/// `run_json` of a run that has ended after this step.
std::string add_end(const std::string& run_json, std::int64_t step, bool interrupted);

/// Whether `text` is an undamaged run.json: an object with its checksum.
bool is_run_json(const std::string& text);
/// Whether two run.json are of one run, judged by what they record of its start.
bool are_of_one_run(const std::string& run_json, const std::string& other);
/// The smallest step that a run was resumed from since its run.json was `before`: later steps from
/// that time belong to an abandoned attempt. None if it was not resumed since.
std::optional<std::int64_t> step_gone_back_to(const std::string& run_json,
                                              const std::string& before);

}  // namespace accrue::train
