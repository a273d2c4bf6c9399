#include "verify/config/verdict.h"

#include <algorithm>

#include "verify/power.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

std::string line_of(Cause cause, const std::string& why) {
  return std::string(to_string(cause)) + ": " + why;
}

std::string how_to_have_more(const Extent& extent) {
  const std::string memory = extent.has_budget
                                 ? "a larger memory.budget"
                                 : "a machine with more free memory (one pass may take half of it)";
  if (extent.taken >= extent.fitting) return memory;
  constexpr const char* thorough = "accrue verify --thorough";
  if (extent.fitting >= extent.samples) return thorough;
  return std::string(thorough) + " takes " + std::to_string(extent.fitting) + ", more take " +
         memory;
}

}  // namespace

void take(Report& report, const Diagnosis& found) {
  report.cause = found.cause;
  if (found.cause == Cause::unknown) report.place = found.place;
  report.besides = found.besides;
  report.ruled_out = found.ruled_out;
  report.evidence.insert(report.evidence.begin(), found.evidence.begin(), found.evidence.end());
}

void blame(Report& report, const Blame& blamed) {
  const std::vector<Cause> known = all_causes(report);
  if (known.empty())
    report.cause = blamed.cause;
  else if (std::ranges::find(known, blamed.cause) == known.end())
    report.besides.push_back(blamed.cause);
  if (blamed.cause == Cause::unknown && report.place == Place::none) report.place = blamed.place;
  if (report.max_relative_error <= report.bound) {
    report.max_relative_error = blamed.error;
    report.bound = blamed.bound;
  }
  report.evidence.insert(report.evidence.end(), blamed.evidence.begin(), blamed.evidence.end());
}

void blame_loading(Report& report, const DataCheck& data) {
  for (const std::string& fault : data.loading_faults)
    blame(report, {.place = Place::data,
                   .evidence = {fault,
                                "passes in other parts take other samples then, so that what "
                                "differs between them has no cause of its own"}});
}

void blame_draws(Report& report, const DataCheck& data) {
  for (const std::string& fault : data.faults)
    blame(report, {.place = Place::data, .evidence = {fault}});
  report.left_out.insert(report.left_out.end(), data.left_out.begin(), data.left_out.end());
}

void rule_out_by_agreement(Report& report, double within, bool in_double) {
  const std::vector<Cause> known = all_causes(report);
  const auto rule = [&](Cause cause, const std::string& why) {
    if (std::ranges::find(known, cause) == known.end())
      report.ruled_out.push_back(line_of(cause, why));
  };
  rule(Cause::nondeterminism, "one pass, run twice from the same seed, is the same");
  for (const Cause cause : {Cause::weighting, Cause::normalization, Cause::dropout,
                            Cause::batchnorm, Cause::batch_coupled_loss})
    rule(cause, "splits and the window agree with plain passes, within " + number(within) +
                    " of the gradient" + (in_double ? ", and in fp64" : ""));
}

std::string name_of_reference(std::int64_t samples, std::int64_t limit, bool takes_all_statistics) {
  const std::string all = "the window's " + std::to_string(samples) + " samples";
  if (limit >= samples) return "one plain pass over " + all;
  if (takes_all_statistics)
    return "training's own way through " + all + ", with sums in fp32 and nothing recomputed";
  return "plain passes of " + std::to_string(limit) + " of " + all;
}

void judge_bounds(Report& report, const Bounds& bounds) {
  if (bounds.joint > most_conclusive_bound || !are_conclusive(report.smallest_fault)) {
    report.conclusive = bounds.in_double;
    report.evidence.push_back("in " + bounds.compute + " rounding may change " +
                              number(bounds.joint) + " of the gradient, which proves little" +
                              (bounds.in_double ? "; the comparison in fp64 does" : ""));
  }
  if (!report.steps || report.steps->conclusive || !report.steps->equal) return;
  report.conclusive = false;
  report.left_out.push_back(
      "a proof of the optimizer's steps: rounding may move the parameters by " +
      number(report.steps->joint_bound) + " of their movement; a smaller optim.lr has it");
}

SmallestFault take_in_double(Report& report, const StepsComparison& steps, const Extent& extent) {
  const std::string few = "the first " + std::to_string(extent.taken) + " samples of each window";
  report.evidence.push_back(
      "optimizer steps in the config's precision prove nothing: rounding may move the parameters "
      "by " +
      number(report.steps->joint_bound) + " of their movement; those in fp64, on " + few + ", do");
  if (extent.taken < extent.samples)
    report.left_out.push_back("a proof of the optimizer's steps on more than " + few);
  report.steps = steps.result;
  report.steps->splits += ", in fp64 on " + few;
  return {steps.smallest_fault.kind + ", in fp64", steps.smallest_fault.relative};
}

void note_extent(Report& report, const Extent& extent) {
  if (extent.taken >= extent.samples) return;
  const std::string taken = std::to_string(extent.taken), all = std::to_string(extent.samples);
  report.extent = "splits, orders and steps on the first " + taken + " of its " + all + " samples";
  report.left_out.push_back("splits, orders and steps of the " + all + " samples but the first " +
                            taken + ": " + how_to_have_more(extent));
}

}  // namespace accrue::proof
