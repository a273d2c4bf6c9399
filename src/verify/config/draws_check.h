#pragma once

#include <string>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::proof {

/// What was found wrong with a run's data.
struct DataCheck {
  std::vector<std::string> faults;  ///< in which samples windows take, and in their labels
  /// Micro-batches that do not hold the samples of their draws, so that passes over the same draws
  /// in other parts are passes over other samples.
  std::vector<std::string> loading_faults;
  std::vector<std::string> left_out;  ///< what was not looked at
};

/// What is wrong with which samples a run's windows take, by the promises alone (accrue/batch): the
/// windows of an epoch follow on each other from its first draw on and end with it, each sample is
/// drawn once an epoch, and a shuffled epoch has an order of its own. Of long epochs the first
/// draws and windows are looked at.
DataCheck check_draws(const train::Workload& work);

/// What is wrong with the labels of a micro-batch of running text: each is the token that follows,
/// where it counts. Empty if nothing is.
std::vector<std::string> faults_of_labels(const batch::MicroBatch& micro);

/// What is wrong with two micro-batches of the same samples, in each of which other tokens are
/// hidden: the labels of those in one are what the other shows or has as labels. Empty if
/// nothing is.
std::vector<std::string> faults_of_hidden_tokens(const batch::MicroBatch& one,
                                                 const batch::MicroBatch& other);

}  // namespace accrue::proof
