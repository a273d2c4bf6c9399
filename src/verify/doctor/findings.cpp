#include "verify/doctor/findings.h"

#include <algorithm>
#include <cmath>

#include "verify/doctor/finding_rules.h"

namespace accrue::proof {

std::vector<Finding> examine(const RunFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& rules : {model_rules(), numeric_rules(), schedule_rules(), data_rules(),
                            batch_rules(), speed_rules(), run_rules()})
    for (const Rule rule : rules)
      if (std::optional<Finding> found = rule(facts)) findings.push_back(std::move(*found));
  for (const std::string& remark : facts.data_remarks)
    findings.push_back({"data-remark", Severity::note, remark, "", {}});
  for (const LimitFact& limit : facts.limits) findings.push_back(finding_of(limit));
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  return findings;
}

}  // namespace accrue::proof
