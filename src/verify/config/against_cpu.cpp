#include "verify/config/against_cpu.h"

#include <algorithm>
#include <string>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "train/workload/placement.h"
#include "verify/config/config_subject.h"
#include "verify/config/proof_workload.h"
#include "verify/config/verdict.h"
#include "verify/prover.h"

namespace accrue::proof {
namespace {

/// Samples of one pass in fp64, and of the passes that measure rounding.
constexpr std::int64_t samples_of_a_pass = 8;
constexpr int noise_draws = 3;
/// The largest fraction of the gradient that rounding may change in a meaningful comparison.
constexpr double most_rounding = 0.1;

void tell(const VerifyConfigOptions& options, const std::string& what) {
  if (options.progress) options.progress(what);
}

/// Measures rounding of the config's precision on the device, by plain passes over some samples.
Noise measured_noise(ConfigSubject& subject, batch::Range samples) {
  Prover prover(subject, samples, noise_draws);
  Noise noise = prover.noise();
  noise.one_way = std::max(noise.one_way, subject.rounds_elsewhere());
  return noise;
}

}  // namespace

Report verify_against_cpu(train::Config config, const VerifyConfigOptions& options,
                          const TrainingParts& parts) {
  const Stopwatch watch;
  const train::Workload work = open_for_proof(std::move(config), 1, options.show);
  const std::string device = train::device_of(work.config).str();
  ConfigSubject subject(work, parts);
  const std::unique_ptr<ConfigSubject> twin = subject.twin_in_double();
  if (!twin)
    throw usage_error("verify --against=cpu", "a config in fp32 or bf16",
                      "one in fp64, in which the comparison is made", "verify without --against");
  const train::MicroDecision planned = train::choose_micro_batch(work, options.show);
  subject.set_recompute(planned.recompute);
  const batch::Range window = subject.window();
  const Split own = even_split(window, std::min(planned.samples, subject.samples()));
  tell(options, "the window as training runs it on " + device + ", " + own.name);
  const Gradients accumulated = subject.accumulated(own.parts, {});
  tell(options, "the same in fp64 on the CPU, in passes of " + std::to_string(samples_of_a_pass));
  const Parts passes = even_split(window, samples_of_a_pass).parts;
  Gradients reference = twin->in_passes(passes, {});
  tell(options, "what rounding makes of plain passes on " + device);
  const Noise noise =
      measured_noise(subject, subject.counting(window, std::min(samples_of_a_pass, window.size())));
  Prover prover(subject, passes, std::move(reference), noise);
  Findings findings(subject.parameters());
  Report report{.reference = "plain passes of " + std::to_string(samples_of_a_pass) +
                             " samples in fp64 on the CPU"};
  report.splits.push_back(prover.record(
      {subject.compute() + " on " + device + ", " + own.name, own.parts}, accumulated, findings));
  findings.write(report);
  if (const SplitResult& split = report.splits.front(); !split.equal)
    blame(report, {.place = Place::operations,
                   .evidence = {split.name +
                                ": farther from fp64 on the CPU than rounding takes "
                                "it, most in " +
                                split.parameter},
                   .error = split.relative_error,
                   .bound = split.bound});
  report.equal = report.cause == Cause::none;
  report.conclusive = prover.joint_bound() <= most_rounding;
  if (!report.conclusive)
    report.inconclusive = "on " + device + " " +
                          what_rounding_may_change(prover.joint_bound(), prover.loosest()) +
                          "; try precision.compute = \"fp32\", or another run.seed";
  report.times = {.total = watch.seconds()};
  return report;
}

}  // namespace accrue::proof
