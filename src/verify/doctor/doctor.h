#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accrue/core/long_operation.h"
#include "accrue/train/config.h"
#include "verify/doctor/findings.h"

namespace accrue::proof {

struct Examination {
  RunFacts facts;
  std::vector<Finding> findings;
};

struct DoctorOptions {
  std::function<void(const std::string&)> progress{};  ///< told what is being measured
  ShowProgress show{};  ///< shows what comes before: data and model are opened, a plan is made
};

/// Examines a config, its data and its model before a run: static checks, the labels of the first
/// window, the speed of a few micro-batches (of the run's size, of the largest that fits, and in
/// the other precision), and the first steps. Writes nothing. Throws a usage Error if the config is
/// wrong.
Examination doctor(const train::Config& config, const DoctorOptions& options = {});

}  // namespace accrue::proof
