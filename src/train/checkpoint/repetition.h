#pragma once

#include <string>
#include <vector>

#include "train/checkpoint/run_record.h"

namespace accrue::train {

/// A run that repeats another.
struct RepeatingRun {
  const Config& config;
  const RunEnvironment& environment;
  const RunData& data;
  const std::string& start;  ///< digest of its initial parameters; empty: unknown
};

/// How a run that repeats another differs from it.
struct Repetition {
  /// Whether the plan is kept: no value that it was computed from is stated differently.
  bool keeps_plan = true;
  std::vector<std::string> differences;  ///< a sentence each; empty: nothing differs
  /// How the repeated run went if it was interrupted; a sentence each.
  std::vector<std::string> history;
  /// The changes by hand of the batch of the run that is repeated, which this one makes, too; none
  /// if it states another batch.
  std::vector<BatchChange> batch_changes;
  std::string bits;  ///< whether its bits are to be expected again, and why
};

/// Compares `now` with the run that it repeats. Throws a usage Error that names the changed files
/// of data that the config still names, unless they are accepted (--accept-data).
Repetition compare_with(const RunRecord& record, const RepeatingRun& now, bool accept_data);

/// The differences between the files of two runs, a sentence each: those that grew, shrank or
/// changed in place, that are missing, and that are new. A file that only moved to another folder
/// counts as the same.
std::vector<std::string> changed_files(const std::vector<data::DataFile>& before,
                                       const std::vector<data::DataFile>& now);
/// The differences of the training files, and then of the validation files.
std::vector<std::string> changed_files(const RunData& before, const RunData& now);

}  // namespace accrue::train
