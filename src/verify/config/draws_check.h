#pragma once

#include <string>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::proof {

/// What was found wrong, and what was not looked at.
struct DataCheck {
  std::vector<std::string> faults, left_out;
};

/// What is wrong with which samples a run's windows take, by the promises alone (accrue/batch): the
/// windows of an epoch follow on each other from its first draw on and end with it, each sample is
/// drawn once an epoch, and a shuffled epoch has an order of its own. Of long epochs the first
/// draws and windows are looked at.
DataCheck check_draws(const train::Workload& work);

/// What is wrong with the labels of a micro-batch of running text: each is the token that follows,
/// where it counts. Empty where nothing is.
std::vector<std::string> faults_of_labels(const batch::MicroBatch& micro);

}  // namespace accrue::proof
