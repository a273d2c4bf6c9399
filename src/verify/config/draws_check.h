#pragma once

#include <string>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::proof {

/// Faults in a run's data.
struct DataCheck {
  std::vector<std::string> faults;  ///< in the samples of windows, and in their labels
  /// Micro-batches that do not hold the samples of their draws, so that passes over the same draws
  /// in other parts are passes over other samples.
  std::vector<std::string> loading_faults;
  std::vector<std::string> left_out;  ///< what was not checked
};

/// Faults in the samples that a run's windows take, by the guarantees alone (accrue/batch): the
/// windows of an epoch follow each other from its first draw and end with it, each sample is drawn
/// once per epoch, and each shuffled epoch has a different order. In long epochs the first draws
/// and windows are checked.
DataCheck check_draws(const train::Workload& work);

/// Faults in the labels of a micro-batch of running text: each must be the next token, if it
/// counts. Empty if there is none.
std::vector<std::string> faults_of_labels(const batch::MicroBatch& micro);

/// Faults in two micro-batches of the same samples with different masked tokens:
/// the labels in one must be the tokens or labels of the other. Empty if there is
/// none.
std::vector<std::string> faults_of_hidden_tokens(const batch::MicroBatch& one,
                                                 const batch::MicroBatch& other);

}  // namespace accrue::proof
