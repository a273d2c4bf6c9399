#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verify/doctor/findings.h"

namespace accrue::proof {

/// One question to a run's facts: a finding, or nothing to say.
using Rule = std::optional<Finding> (*)(const RunFacts& facts);

std::vector<Rule> model_rules();     ///< normalisation, dropout
std::vector<Rule> numeric_rules();   ///< precision of sums
std::vector<Rule> schedule_rules();  ///< learning rate and its schedule
std::vector<Rule> data_rules();      ///< labels, batches and epochs
std::vector<Rule> batch_rules();     ///< the batch and the rate beside the noise of the first steps
std::vector<Rule> speed_rules();     ///< micro-batch and precision, as measured
std::vector<Rule> run_rules();       ///< evaluation and checkpoints

/// What there is to say of a limit as it stands now.
Finding finding_of(const LimitFact& fact);

bool is_adam(const RunFacts& facts);  ///< whether updates are those of Adam
std::string percent(double share);
std::string listed(const std::vector<std::string>& names);

}  // namespace accrue::proof
