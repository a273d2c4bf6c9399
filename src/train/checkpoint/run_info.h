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

/// The time in UTC as ISO 8601 writes it, to the second.
std::string now_iso();

/// The files that a run reads.
struct RunData {
  std::vector<data::DataFile> train;
  std::vector<data::DataFile> val;  ///< empty if the held-out samples are of the training files
};

/// What run.json keeps of a new run: what it was begun with, so that it can be repeated.
struct RunInfo {
  Config config;                     ///< as the run's config.toml has it
  std::vector<std::string> command;  ///< as typed
  RunEnvironment environment;
  RunData data;
  const nlohmann::json& plan;  ///< to_json(RunPlan)
  std::int64_t total_steps = 0;
  std::int64_t parameters = 0;
  bool counts_tokens = true;  ///< its unit: tokens, or samples where samples have none
  std::string start;          ///< digest of the parameters that it starts from
  std::string module = {};    ///< models::TorchScriptModel::digest()
  std::map<std::string, std::string> tokenizer = {};  ///< KeptTokenizer::digests()
  /// The run that this one repeats, and what differs from it; no folder where it repeats none.
  std::string repeats;
  std::vector<std::string> differences = {};
  /// Of the run that this one repeats: how its batch was changed by hand.
  std::vector<BatchChange> batch_changes = {};
};

/// run.json of a new run.
std::string describe_run(const RunInfo& info);

/// What a resumption changes about a run.
struct Resumption {
  std::int64_t step = 0;  ///< that it goes on from
  std::vector<std::string> command;
  Config config;  ///< as config.toml has it from now on
  std::vector<ConfigDifference> changes = {};
  RunEnvironment environment;
  RunData data;
  bool data_changed = false;
  std::string module = {};  ///< models::TorchScriptModel::digest()
  /// Of the state that it goes on from, and so of the run from then on.
  optim::ScheduleVersion schedule = optim::ScheduleVersion::min_after_last_step;
  /// All changes of the batch that were stated by hand, this resumption's among them.
  std::vector<BatchChange> batch_changes = {};
};

/// `run_json` with this resumption added to its "resumed" list, and with what it changes; a run
/// that had ended has not any more.
std::string add_resumption(const std::string& run_json, const Resumption& resumption);

/// `run_json` of a run that has ended after this step.
std::string add_end(const std::string& run_json, std::int64_t step, bool interrupted);

/// Whether `text` is a run.json as it was written: an object with its checksum.
bool is_run_json(const std::string& text);
/// Whether two run.json are of one run, as what they say of its start tells.
bool are_of_one_run(const std::string& run_json, const std::string& other);
/// The least step that a run was resumed from since its run.json was `before`: later steps of then
/// belong to an attempt that was given up. None if it was not resumed since.
std::optional<std::int64_t> step_gone_back_to(const std::string& run_json,
                                              const std::string& before);

}  // namespace accrue::train
