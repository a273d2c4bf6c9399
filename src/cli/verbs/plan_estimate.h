#pragma once

#include <optional>

#include "train/measure/machine_estimate.h"
#include "train/plan/plan_estimate.h"

namespace accrue::cli {

struct Estimates {
  train::RunEstimate run;
  std::optional<train::BudgetEstimate> budget;
  train::MachineEstimate machine;
};

/// Prints the output of `accrue plan --estimate`.
void print_estimate(const Estimates& estimates, bool json);

}  // namespace accrue::cli
