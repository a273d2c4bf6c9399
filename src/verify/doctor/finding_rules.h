#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verify/doctor/findings.h"

namespace accrue::proof {

/// One check of a run's facts: a finding, or nothing.
using Rule = std::optional<Finding> (*)(const RunFacts& facts);

std::vector<Rule> model_rules();     ///< normalisation, dropout
std::vector<Rule> numeric_rules();   ///< precision of sums
std::vector<Rule> schedule_rules();  ///< learning rate and its schedule
std::vector<Rule> data_rules();      ///< labels, batches and epochs
std::vector<Rule> batch_rules();     ///< the batch and the rate relative to the first steps' noise
std::vector<Rule> speed_rules();     ///< micro-batch and precision, as measured
std::vector<Rule> run_rules();       ///< evaluation and checkpoints

/// The finding on a limit in its current state.
Finding finding_of(const LimitFact& fact);

bool is_adam(const RunFacts& facts);  ///< whether updates are those of Adam
std::string percent(double share);
std::string listed(const std::vector<std::string>& names);

}  // namespace accrue::proof
