#include "verify/config/double_check.h"

#include "accrue/core/error.h"
#include "memory/out_of_memory.h"
#include "verify/config/skipped.h"
#include "verify/config/trained_window.h"

namespace accrue::proof {
namespace {

constexpr int distance_draws = 2;

/// Draws measure here how far ATen's operators are from fp64, in the config's precision.
std::optional<Blame> compare_distance(ConfigSubject& subject, const Prover& in_double,
                                      Report& report) {
  const batch::Range samples = in_double.samples();
  Prover prover(subject, {samples}, in_double.reference(),
                Noise{.one_way = subject.rounds_elsewhere()});
  prover.draw(distance_draws);
  Findings findings(subject.parameters());
  const SplitResult result = prover.record({subject.compute() + ", beside fp64", {samples}},
                                           subject.native_pass(samples, {}), findings);
  report.splits.push_back(result);
  if (result.equal) return std::nullopt;
  return Blame{.place = Place::operations,
               .evidence = {result.name +
                            ": the gradient is farther from fp64's than rounding "
                            "takes it, most in " +
                            result.parameter},
               .error = result.relative_error,
               .bound = result.bound};
}

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
  check.distance = compare_distance(subject, prover, report);
  return check;
}

}  // namespace

std::optional<DoubleCheck> check_in_double(ConfigSubject& subject, batch::Range samples,
                                           Report& report) {
  try {
    return compared(subject, samples, report);
  } catch (const NotFinite& error) {
    if (!error.of_plain_pass) throw;
    report.left_out.push_back("the comparison in fp64: " + error.received());
  } catch (const LostWindow&) {
    throw;
  } catch (const Error&) {
    report.left_out.emplace_back("the comparison in fp64: this model does not run in it");
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    report.left_out.push_back("the comparison in fp64: " + memory::why_out_of_memory(error) +
                              "; a larger memory.budget has it");
  }
  return std::nullopt;
}

}  // namespace accrue::proof
