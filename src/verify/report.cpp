#include "accrue/verify/report.h"

#include "verify/causes.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

const char* meaning(Place place) {
  switch (place) {
    case Place::operations:
      return "accrue's operations give another gradient than ATen's operators";
    case Place::sums:
      return "sums of the same gradients, taken by two ways, are not the same";
    case Place::steps:
      return "gradients agree, but the optimizer's steps leave other parameters than "
             "torch::optim's";
    case Place::frozen:
      return "a parameter that is not trained moves";
    case Place::data:
      return "which samples or labels the run takes is not what its config promises";
    case Place::not_finite:
      return "training's way gives a loss or a gradient that is not finite, where a plain pass "
             "over "
             "the same samples does not";
    case Place::not_searched:
      return "the search for the cause could not be finished";
    case Place::none:
    case Place::window:
      break;
  }
  return "training's own way through the window gives another gradient than its micro-batches, "
         "each by itself";
}

const char* remedy(Place place) {
  switch (place) {
    case Place::operations:
      return "report it with this config: the fault is accrue's, or that of a model whose layers "
             "are not the same in each run";
    case Place::sums:
      return "report it with this config: the fault is in how accrue adds up";
    case Place::steps:
      return "report it with this config: the fault is in accrue's optimizer, its clipping or its "
             "weight decay; another optim.kind may be free of it";
    case Place::frozen:
      return "look at what the model does to its own parameters in a forward pass; if it is "
             "nothing, report it with this config";
    case Place::data:
      return "report it with this config and the number of samples: the fault is in how accrue "
             "draws or reads them";
    case Place::not_finite:
      return "report it with this config: the fault is accrue's, or that of a model whose layers "
             "are not the same in each run";
    case Place::not_searched:
      return "see what was left out, and run it again in an environment that allows it";
    case Place::none:
    case Place::window:
      break;
  }
  return "leave out what runs the window another way (memory.recompute = \"none\", "
         "memory.gradients "
         "= \"buffer\", one process), and report it with this config: the fault is accrue's, or "
         "that "
         "of a model whose layers are not the same in each run";
}

}  // namespace

std::vector<Cause> all_causes(const Report& report) {
  if (report.cause == Cause::none) return {};
  std::vector<Cause> causes{report.cause};
  causes.insert(causes.end(), report.besides.begin(), report.besides.end());
  return causes;
}

std::string conclusion(const Report& report) {
  const std::string numbers = "largest relative error " + number(report.max_relative_error) +
                              ", bound " + number(report.bound);
  if (report.equal && !report.conclusive)
    return "Not conclusive: no difference beyond the bound, but " +
           (report.inconclusive.empty() ? "the bound allows too much to prove anything"
                                        : report.inconclusive) +
           " (" + numbers + ").";
  if (report.equal && !report.complete)
    return "No difference in what was compared, which is not everything: see what was left out (" +
           numbers + ").";
  if (report.equal)
    return "Equal: the accumulated gradient is the full batch's, up to rounding (" +
           (report.extent.empty() ? "" : report.extent + "; ") + numbers + ").";
  std::string causes;
  for (const Cause cause : all_causes(report))
    causes += (causes.empty() ? "" : "; and ") + std::string(to_string(cause)) + ", " +
              (cause == Cause::unknown ? meaning(report.place) : in_words(cause).meaning);
  return "Not equal: " + causes + " (" + numbers + ").";
}

std::string advice(const Report& report) {
  std::string remedies;
  for (const Cause cause : all_causes(report))
    remedies +=
        (remedies.empty() ? "" : "; ") +
        std::string(cause == Cause::unknown ? remedy(report.place) : in_words(cause).remedy);
  return remedies;
}

}  // namespace accrue::proof
