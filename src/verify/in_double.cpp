#include "verify/in_double.h"

#include <algorithm>

#include "memory/out_of_memory.h"
#include "support/rounding.h"
#include "verify/split.h"

namespace accrue::proof {
namespace {

/// A bound above this misses faults of a size that fp64 detects.
constexpr double blunt_bound = 1e-3;
/// Weights that are rounded, clamped or compared may all be on a kink, where the smallest change
/// decides and rounding looks like a fault. At this relative distance they are not.
constexpr double off_kinks = 0x1p-10;
constexpr std::uint64_t seed_off_kinks = 1001;

}  // namespace

std::optional<Diagnosis> confirm_in_double(Subject& subject, const Prover& prover,
                                           Findings& findings, Report& report) {
  if (prover.worst().exceeds() || (prover.joint_bound() <= blunt_bound && prover.is_conclusive()))
    return {};
  try {
    const std::unique_ptr<Subject> twin = subject.in_double();
    if (!twin) return {};
    for (const double away : {0.0, off_kinks}) {
      const KeepParameters keep(twin->parameters());
      if (away > 0) perturb(twin->parameters(), seed_off_kinks, away);
      Prover in_double(*twin, {0, std::min(samples_in_double, subject.samples())}, 1);
      Split split = uneven_split(in_double.samples());
      split.name += away > 0 ? ", in fp64, off the kinks" : ", in fp64";
      report.splits.push_back(in_double.check(split, findings));
      report.conclusive = in_double.is_conclusive();
      report.inconclusive =
          report.conclusive
              ? ""
              : "in fp64, too, " +
                    what_rounding_may_change(in_double.joint_bound(), in_double.loosest()) +
                    "; try other samples or other weights, where this gradient is larger";
      if (in_double.worst().exceeds()) return in_double.explain();
      if (report.conclusive) return {};
    }
  } catch (const std::exception& error) {
    // A loss with its own fp32 tensors: there is no fp64 reference then.
    if (memory::is_out_of_memory(error))
      report.left_out.push_back("the comparison in fp64: " + memory::why_out_of_memory(error));
  }
  return {};
}

}  // namespace accrue::proof
