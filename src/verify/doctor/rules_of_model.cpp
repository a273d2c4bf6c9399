#include <cmath>
#include <cstdio>

#include "core/words.h"
#include "verify/doctor/finding_rules.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

/// A bf16 sum does not change any more when a contribution is 1/256 of it.
constexpr double bf16_stall = 256;
/// From here on a bf16 sum loses more than a twentieth of its value in the worst case.
constexpr std::int64_t bf16_many = 16;

using Found = std::optional<Finding>;

std::vector<std::string> all_batch_norms(const RunFacts& facts) {
  std::vector<std::string> names = facts.cut_batch_norms;
  names.insert(names.end(), facts.uncut_batch_norms.begin(), facts.uncut_batch_norms.end());
  return names;
}

Found batch_norm(const RunFacts& facts) {
  const std::vector<std::string> names = all_batch_norms(facts);
  if (names.empty()) return {};
  const std::string where =
      std::to_string(names.size()) + " batch normalisations (" + listed(names) + ")";
  const std::vector<std::pair<std::string, double>> evidence{
      {"layers", static_cast<double>(names.size())},
      {"uncut", static_cast<double>(facts.uncut_batch_norms.size())},
      {"micro_batch", static_cast<double>(facts.micro_batch)},
      {"micro_batches", static_cast<double>(facts.micro_batches)}};
  const models::BatchNormPolicy policy = facts.config.model.batchnorm;
  if (policy == models::BatchNormPolicy::exact && facts.uncut_batch_norms.empty())
    return Finding{"batchnorm-exact", Severity::note,
                   where +
                       " take the whole window's statistics, as model.batchnorm = \"exact\" "
                       "says: one more forward pass",
                   "a conversion to GroupNorm costs nothing: model.batchnorm = \"convert-group\"",
                   evidence};
  if (policy == models::BatchNormPolicy::micro)
    return Finding{"batchnorm-micro", Severity::warning,
                   where + " take the statistics of " + std::to_string(facts.micro_batch) +
                       " samples instead of the batch's " + std::to_string(facts.batch_samples),
                   facts.uncut_batch_norms.empty() ? "model.batchnorm = \"exact\" or "
                                                     "\"convert-group\""
                                                   : "a model without them: these cannot be cut",
                   evidence};
  return Finding{"batchnorm-refused", Severity::error,
                 where + ", and model.batchnorm = " + in_quotes(to_string(policy)) +
                     ": train refuses to start",
                 facts.uncut_batch_norms.empty()
                     ? "model.batchnorm = \"exact\", \"convert-group\", or \"micro\" to accept "
                       "statistics of micro-batches"
                     : "model.batchnorm = \"micro\", or a model without them",
                 evidence};
}

Found foreign_dropout(const RunFacts& facts) {
  if (facts.foreign_dropouts.empty()) return {};
  return Finding{"dropout-foreign",
                 Severity::warning,
                 "dropout in " + listed(facts.foreign_dropouts) +
                     " draws masks that depend on the micro-batch size",
                 "setting it to 0 in the module; masks of accrue's own models depend on the sample "
                 "alone",
                 {{"layers", static_cast<double>(facts.foreign_dropouts.size())}}};
}

Found bf16_sum(const RunFacts& facts) {
  if (facts.config.precision.accumulate != accum::Accumulation::bf16 || facts.micro_batches < 2)
    return {};
  const auto count = static_cast<double>(facts.micro_batches);
  const double lost = std::min(1.0, (count - 1) / bf16_stall);
  const bool stalls = count >= bf16_stall;
  return Finding{"bf16-sum",
                 facts.micro_batches >= bf16_many ? Severity::warning : Severity::advice,
                 "a bf16 sum of " + std::to_string(facts.micro_batches) +
                     " micro-batches may lose up to " + percent(lost) + " of the gradient" +
                     (stalls ? ": after 256 equal contributions it takes no more" : ""),
                 "precision.accumulate = \"fp32\", or \"bf16-kahan\" where memory asks",
                 {{"micro_batches", count}, {"largest_relative_error", lost}}};
}

Found fp64_compute(const RunFacts& facts) {
  if (facts.config.precision.compute != models::Compute::fp64) return {};
  return Finding{"compute-fp64",
                 Severity::advice,
                 "precision.compute = \"fp64\" is for comparisons: half the speed of fp32 or less",
                 "precision.compute = \"fp32\"",
                 {}};
}

}  // namespace

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.095 ? "%.1f%%" : "%.0f%%", 100 * share);
  return text;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > 3 ? text + ", ..." : text;
}

std::vector<Rule> model_rules() { return {batch_norm, foreign_dropout}; }
std::vector<Rule> numeric_rules() { return {bf16_sum, fp64_compute}; }

}  // namespace accrue::proof
