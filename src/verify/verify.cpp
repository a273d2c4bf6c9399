#include "accrue/verify/verify.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "verify/config/skipped.h"
#include "verify/in_double.h"
#include "verify/module_subject.h"
#include "verify/power.h"
#include "verify/prover.h"

namespace accrue::detail {
namespace {

using proof::Split;

constexpr std::int64_t most_parts = 64;

std::vector<std::int64_t> usual_sizes(std::int64_t samples) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3},
                                  std::int64_t{7}, (samples + 1) / 2, samples})
    if (size <= samples && (samples + size - 1) / size <= most_parts &&
        std::ranges::find(sizes, size) == sizes.end())
      sizes.push_back(size);
  return sizes;
}

std::vector<Split> splits_of(batch::Range samples, const VerifyOptions& options) {
  const std::vector<std::int64_t> sizes =
      options.micro_batches.empty() ? usual_sizes(samples.size()) : options.micro_batches;
  std::vector<Split> splits;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1)
      throw usage_error("verify", "micro-batches of at least 1 sample", std::to_string(sizes[i]),
                        "VerifyOptions{.micro_batches = {1, 2, 3}}");
    const Split split = proof::even_split(samples, sizes[i]);
    splits.push_back(split);
    if (split.parts.size() < 2) continue;
    splits.push_back(i % 2 == 0 ? proof::reversed(split) : proof::shuffled(split, options.seed));
  }
  splits.push_back(proof::uneven_split(samples));
  return splits;
}

/// The faults that the last split would have missed.
void state_power(const proof::Subject& subject, const proof::Prover& prover,
                 proof::Report& report) {
  report.smallest_fault =
      proof::smallest_faults(subject.parameters(), prover.last(), prover.reference(), {});
  for (std::string& left : proof::parameters_left_out(subject.parameters(), prover.last()))
    report.left_out.push_back(std::move(left));
}

}  // namespace

void require_two_samples(const VerifiedModel& model) {
  if (model.samples >= 2) return;
  throw usage_error("verify", "a batch of at least 2 samples", std::to_string(model.samples),
                    "a batch that can be split");
}

proof::Report verify_model(const VerifiedModel& model, const VerifyOptions& options) {
  require_two_samples(model);
  proof::ModuleSubject subject(model);
  const batch::Range all{0, model.samples};
  proof::Prover prover(subject, all, options.noise_draws);
  proof::Findings findings(subject.parameters());
  proof::Report report;
  report.reference = "one pass over " + std::to_string(model.samples) + " samples";
  for (const Split& split : splits_of(all, options))
    proof::check_or_skip(prover, split, findings, report);
  proof::require_some_split(report, model.samples);
  state_power(subject, prover, report);
  report.conclusive = prover.worst().exceeds() || prover.is_conclusive();
  if (!report.conclusive)
    report.inconclusive = proof::what_rounding_may_change(prover.joint_bound(), prover.loosest()) +
                          "; try a loss that runs in fp64, which decides it";
  std::optional<proof::Diagnosis> in_double =
      proof::confirm_in_double(subject, prover, findings, report);
  findings.write(report);
  proof::Diagnosis diagnosis = in_double ? std::move(*in_double) : prover.explain();
  report.cause = diagnosis.cause;
  report.besides = std::move(diagnosis.besides);
  report.evidence = std::move(diagnosis.evidence);
  report.ruled_out = std::move(diagnosis.ruled_out);
  report.equal = report.cause == proof::Cause::none;
  return report;
}

}  // namespace accrue::detail
