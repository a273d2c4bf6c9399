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

/// What `accrue plan --estimate` prints.
void print_estimate(const Estimates& estimates, bool json);

}  // namespace accrue::cli
