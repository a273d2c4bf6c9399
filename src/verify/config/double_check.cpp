#include "verify/config/double_check.h"

#include "accrue/core/error.h"
#include "memory/out_of_memory.h"
#include "verify/config/skipped.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

std::optional<DoubleCheck> compared(ConfigSubject& subject, batch::Range samples, Report& report) {
  DoubleCheck check{.twin = subject.twin_in_double()};
  if (!check.twin) return std::nullopt;
  Prover prover(*check.twin, samples, 1);
  Findings findings(check.twin->parameters());
  Split split = uneven_split(samples);
  split.name += ", in fp64";
  if (!check_or_skip(prover, split, findings, report)) return std::nullopt;
  check.comparison = prover.last();
  if (prover.worst().exceeds()) check.diagnosis = prover.explain();
  const Gradients computed = subject.native_pass(samples, {});
  report.evidence.push_back(subject.compute() + "'s gradient of " + std::to_string(samples.size()) +
                            " samples is " + number(relative_error(computed, prover.reference())) +
                            " from fp64's");
  return check;
}

}  // namespace

std::optional<DoubleCheck> check_in_double(ConfigSubject& subject, batch::Range samples,
                                           Report& report) {
  try {
    return compared(subject, samples, report);
  } catch (const Error&) {
    report.evidence.emplace_back("this model does not run in fp64, so there was no arbiter");
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    report.left_out.push_back("the comparison in fp64: " + memory::why_out_of_memory(error));
  }
  return std::nullopt;
}

}  // namespace accrue::proof
