#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/train/trainer.h"
#include "train/checkpoint/resume.h"
#include "train/run/run_folders.h"
#include "train/run/run_notes.h"
#include "train/workload/run_length.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The facts of a run when its loop begins.
struct StartFacts {
  const Workload& work;
  const RunPlan& plan;
  const std::vector<RankRecord>& records;
  const std::optional<LengthDecision>& length;  ///< set for a run that is resumed
  const std::optional<Resumed>& resumed;
  const std::optional<OriginalRun>& repeated;  ///< set for a run that repeats another
  std::int64_t ranks = 1;
};

/// The decisions before the run continues, with reasons, as events of the step it continues from.
std::vector<Event> start_events(const StartFacts& start);
/// The decisions about the run's folders themselves.
std::vector<Event> folder_events(const RunFolders& folders, const RunCopies& copies,
                                 const std::optional<Resumed>& resumed);

/// How a resumption changes a run's length, and with it the learning rate of the step after `step`;
/// empty if it does not.
std::string length_change_in_words(const Config& config, const RunPlan& plan,
                                   const std::optional<LengthDecision>& length, std::int64_t step);

}  // namespace accrue::train
