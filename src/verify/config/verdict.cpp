#include "verify/config/verdict.h"

#include <algorithm>
#include <cstddef>

#include "verify/comparison.h"
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

/// Of what is compared in the config's own precision.
std::string what_is_too_coarse(const Report& report, const Bounds& bounds) {
  std::string why =
      "in " + bounds.compute + " " + what_rounding_may_change(bounds.joint, bounds.loosest);
  if (!are_conclusive(report.smallest_fault))
    why += " and hide that a gradient is scaled by " +
           number(100 * largest_scaled(report.smallest_fault)) + "%";
  return why;
}

std::string what_moves_as_far(const StepsResult& steps) {
  std::string why = "rounding may move the parameters by " + number(steps.joint_bound) +
                    " of their movement by optimizer steps";
  if (!steps.loosest.parameter.empty())
    why += ", most " + steps.loosest.parameter + " (by " + number(steps.loosest.relative) + ")";
  return why;
}

/// The thing to change if fp64 did not decide: the precision, the memory that fp64 lacked, or
/// `otherwise`.
std::string what_decides(const Report& report, const Bounds& bounds, const char* otherwise) {
  if (bounds.compute == "bf16" || bounds.compute == "fp16")
    return "precision.compute = \"fp32\" for this proof";
  const bool lacks_memory = std::ranges::any_of(report.left_out, [](const std::string& line) {
    return line.find("in fp64: ") != std::string::npos &&
           line.find("memory.budget") != std::string::npos;
  });
  return lacks_memory ? "a larger memory.budget, so that fp64 decides" : otherwise;
}

/// Why something is not proved, and what to change.
struct Doubt {
  std::string why, remedy;
};

/// A remedy of several doubts is named once.
std::string sentence_of(const std::vector<Doubt>& doubts) {
  std::string text;
  for (std::size_t i = 0; i < doubts.size(); ++i) {
    text += (i == 0 ? "" : ", and ") + doubts[i].why;
    const bool follows = i + 1 < doubts.size() && doubts[i + 1].remedy == doubts[i].remedy;
    if (!follows) text += "; try " + doubts[i].remedy;
  }
  return text;
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
  std::vector<Doubt> doubts;
  if (bounds.joint > most_conclusive_bound || !are_conclusive(report.smallest_fault)) {
    const std::string why = what_is_too_coarse(report, bounds);
    report.evidence.push_back(why + ", which proves little" +
                              (bounds.in_double ? "; the comparison in fp64 does" : ""));
    constexpr const char* other_samples = "another run.seed, which has other weights and samples";
    if (!bounds.in_double) doubts.push_back({why, what_decides(report, bounds, other_samples)});
  }
  if (report.steps && report.steps->equal && !report.steps->conclusive) {
    constexpr const char* longer_steps = "a larger optim.lr, whose steps are long beside rounding";
    doubts.push_back(
        {what_moves_as_far(*report.steps), what_decides(report, bounds, longer_steps)});
    report.left_out.push_back("a proof of the optimizer's steps: " + sentence_of({doubts.back()}));
  }
  report.conclusive = doubts.empty();
  report.inconclusive = sentence_of(doubts);
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
