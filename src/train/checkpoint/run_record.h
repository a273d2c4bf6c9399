#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_record.h"
#include "train/checkpoint/batch_change.h"
#include "train/checkpoint/environment.h"
#include "train/checkpoint/rank_record.h"
#include "train/checkpoint/run_info.h"

namespace accrue::train {

/// A resumption of a run, as run.json records it.
struct PastResumption {
  std::int64_t step = 0;  ///< the step it continued from
  std::vector<ConfigDifference> changes;
  RunEnvironment environment;
  bool data_changed = false;
};

struct RunRecord {
  std::string folder;
  nlohmann::json config;  ///< Config as JSON: overrides apply to it
  RunEnvironment environment;
  RunData data;
  std::vector<RankRecord> ranks;  ///< the plan, by rank; not empty
  std::string plan_reason;
  std::optional<bool> accelerate;  ///< RunPlan::accelerate
  /// Defaults to the first version, for a run.json that does not have it.
  optim::ScheduleVersion schedule = optim::ScheduleVersion::min_in_last_step;
  std::string start;   ///< digest of the initial parameters; empty if ranks divided them
  std::string module;  ///< of its TorchScript module; empty if run.json has none
  std::vector<PastResumption> resumed;
  std::vector<BatchChange> batch_changes;  ///< that were stated by hand, by window
};

/// The contents of the folder's run.json; an empty object if there is no run.json. Throws a usage
/// Error if it is damaged: cut off, or without its checksum.
nlohmann::json recorded(const RunDirectory& run);

/// The last step that the folder's run.json shows the run to have had a checkpoint of: it ended
/// after that step, or was resumed from it. 0 if it shows none, as of a run that was killed before
/// its first checkpoint. Throws as recorded() does.
std::int64_t last_recorded_step(const RunDirectory& run);

/// SHA-256 of the tokenizer files that the run keeps, by name (KeptTokenizer::digests); empty if
/// its run.json has none. Throws as recorded() does.
std::map<std::string, std::string> recorded_tokenizer(const RunDirectory& run);

/// The schedule version of the run in this folder, from its run.json; the first version if that
/// has none, as in folders of earlier versions. Throws a usage Error if the version is not
/// known.
optim::ScheduleVersion recorded_schedule(const RunDirectory& run);

/// How the batch of the run in this folder was changed by hand, as its run.json has it: a change is
/// there before a checkpoint has it. Throws a usage Error if it is damaged.
std::vector<BatchChange> recorded_batch_changes(const RunDirectory& run);

}  // namespace accrue::train
