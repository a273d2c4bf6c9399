#pragma once

#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/config/config_subject.h"
#include "verify/power.h"

namespace accrue::proof {

/// The first windows of a run, each whole and in two splits.
struct StepsSplit {
  std::string name;  ///< "micro-batches of 4 and of 2, against torch::optim"
  std::vector<batch::Range> whole;
  std::vector<Parts> coarse, fine;
  StepsBy fine_by = StepsBy::buffer;  ///< as training takes its steps; `coarse` always by a buffer
  std::int64_t ranks = 1;  ///< 1, or how many ranks share each of `whole` and step together
  train::MicroDecision ranks_micro = {};
};

/// `steps` windows of `samples` each, in halves and in quarters. If training folds gradients into
/// its optimizer, so do the quarters.
StepsSplit split_steps(const ConfigSubject& subject, const train::Workload& work,
                       std::int64_t steps, std::int64_t samples);
/// Adds steps by `ranks` ranks (or stages), in halves too.
void add_steps_of_ranks(StepsSplit& split, const train::Workload& work, std::int64_t ranks,
                        Recompute recompute);

struct StepsToCompare {
  bool any = true;
  std::vector<std::string> left_out;  ///< with the reason, a line each
};
/// Whether steps on this many samples are compared; `what` names them.
StepsToCompare steps_to_compare(const train::Config& config, const std::string& what,
                                std::int64_t samples);

struct StepsComparison {
  StepsResult result;
  std::vector<std::string> left_out;  ///< with the reason, a line each
  SmallestFault smallest_fault;
};

/// Compares an optimizer step for each window by either split and by ranks, as in training, with
/// the reference's: one plain pass over the window, clipping and torch::optim in fp64. All start
/// from biases and norms that are not 0 or 1, so that decay of them is visible. The effect of
/// rounding on the parameters is measured by the reference's steps from a start moved by a unit in
/// the last place, up or down at random; before a difference counts, by further such starts. The
/// steps of ranks are left out if memory does not hold their models and optimizers.
StepsComparison compare_steps(ConfigSubject& subject, const StepsSplit& split);

}  // namespace accrue::proof
