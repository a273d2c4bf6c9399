#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "accrue/train/trainer.h"
#include "train/checkpoint/kept_tokenizer.h"
#include "train/checkpoint/rank_record.h"
#include "train/checkpoint/repetition.h"
#include "train/checkpoint/resume.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The facts for a run's run.json, before its first step; all of them outlive the object.
struct RunNotes {
  const Config& given;  ///< as in the run's config.toml
  const Workload& work;
  const std::vector<std::string>& command;
  const RunEnvironment& environment;
};

/// A run that is repeated, and how the repetition differs from it.
struct OriginalRun {
  std::shared_ptr<const RunRecord> record;
  Repetition repetition;
};

/// Compares a run with the one that it repeats. Throws a usage Error if data changed and that is
/// not accepted.
OriginalRun repeat(std::shared_ptr<const RunRecord> record, const RunNotes& now, bool accept_data);
/// Remarks on a repetition, a sentence each.
std::vector<std::string> in_words(const OriginalRun& repeated);

/// For a run that starts again because it has no checkpoint yet: throws a usage Error if its data
/// have moved and are not those that it began with, unless that is accepted (--accept-data).
/// `started` is its config.
void expect_data_of_start(const RunDirectory& run, const RunNotes& now, const Config& started,
                          bool accept_data);

/// run.json of a new run.
std::string note_start(const RunNotes& notes, const RunPlan& plan,
                       const std::vector<RankRecord>& records,
                       const std::optional<OriginalRun>& repeated, const KeptTokenizer& tokenizer);
/// Adds a resumption to run.json; `started` is the config that the run had before.
void note_resumption(const RunDirectory& run, const RunNotes& notes, const Resumed& resumed,
                     const Config& started);
/// Records in run.json that the run has ended. Returns why it could not; empty if it did.
std::string note_end(const RunDirectory& run, const RunResult& result);

}  // namespace accrue::train
