#pragma once

#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/config/config_subject.h"

namespace accrue::proof {

/// The first windows of a run, each in two splits.
struct StepsSplit {
  std::string name;  ///< "micro-batches of 4 against 1"
  std::vector<Parts> coarse, fine;
  StepsBy fine_by = StepsBy::buffer;  ///< as training takes its steps; `coarse` always by a buffer
};

/// `steps` windows of `samples` each, in halves and in quarters. Where training folds gradients
/// into its optimizer, so do the quarters.
StepsSplit split_steps(const train::Workload& work, std::int64_t steps, std::int64_t samples);

/// An optimizer step for each window by either split, from the same start. What rounding may do to
/// the parameters is measured by the same steps from a start moved by a unit in the last place, up
/// or down at random; before a difference counts, by further such starts.
StepsResult compare_steps(ConfigSubject& subject, const StepsSplit& split);

}  // namespace accrue::proof
