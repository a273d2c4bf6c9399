#pragma once

#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/config/draws_check.h"
#include "verify/config/steps_check.h"
#include "verify/findings.h"

namespace accrue::proof {

/// Takes over the explanation of a comparison with plain passes.
void take(Report& report, const Diagnosis& found);

/// Adds a fault that such a comparison does not show: as the report's cause if there is none yet,
/// otherwise as a further one.
void blame(Report& report, const Blame& blamed);
/// Adds the faults in the loading of micro-batches, and in the rest of the data.
void blame_loading(Report& report, const DataCheck& data);
void blame_draws(Report& report, const DataCheck& data);

/// Rules out causes by comparisons that found nothing: `within` is the fraction of the gradient by
/// which plain passes and training's may differ there, in fp64 `in_double`.
void rule_out_by_agreement(Report& report, double within, bool in_double);

/// The reference of the window, if `limit` samples fit into one plain pass.
std::string name_of_reference(std::int64_t samples, std::int64_t limit, bool takes_all_statistics);

struct Bounds {
  std::string compute;     ///< "bf16"
  double joint = 0;        ///< the change of the gradient by rounding, all parameters together
  bool in_double = false;  ///< whether fp64 agrees
  LoosestBound loosest{};  ///< of one parameter
};
/// Whether what was compared proves something (Report::conclusive), by its smallest faults, by what
/// rounding may change, and by the bound of the steps; and if not, why and what to change
/// (Report::inconclusive). The report must already have what the comparison in fp64 left out.
void judge_bounds(Report& report, const Bounds& bounds);

/// The samples of the window on which splits, orders and steps were not run.
struct Extent {
  std::int64_t samples = 0;  ///< of the window
  std::int64_t taken = 0;    ///< by splits, orders and steps
  std::int64_t fitting = 0;  ///< in one pass, with the available memory
  bool has_budget = false;   ///< memory.budget is stated
};
/// Takes over optimizer steps in fp64, on `taken` samples of each window, if those in the config's
/// precision prove nothing. Returns their smallest fault.
SmallestFault take_in_double(Report& report, const StepsComparison& steps, const Extent& extent);
/// Adds this to the report, with how to check the rest; nothing if all were taken.
void note_extent(Report& report, const Extent& extent);

}  // namespace accrue::proof
