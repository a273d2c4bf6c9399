#include "accrue/verify/report.h"

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
      return "see what was left out, and run it again where that can be had";
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

const char* meaning(Cause cause) {
  switch (cause) {
    case Cause::none:
      return "";
    case Cause::batchnorm:
      return "batch normalisation takes its statistics from the micro-batch";
    case Cause::dropout:
      return "dropout draws its masks in the order of the passes, so they depend on the split";
    case Cause::weighting:
      return "micro-batches do not count by their weights";
    case Cause::normalization:
      return "the gradient is off by a constant factor";
    case Cause::precision:
      return "sums lose more to rounding than the parameters' dtype has to";
    case Cause::nondeterminism:
      return "the same pass from the same seed gives two results";
    case Cause::batch_coupled_loss:
      return "the loss is no sum over samples: what one contributes depends on the others";
    case Cause::unknown:
      return "";
    case Cause::zeroed_mid_window:
      return "gradients are cleared between the micro-batches of a window";
    case Cause::stepped_mid_window:
      return "parameters change between the micro-batches of a window";
  }
  return "";
}

const char* remedy(Cause cause) {
  switch (cause) {
    case Cause::none:
      return "";
    case Cause::batchnorm:
      return "put group normalisation in the place of batch normalisation, or take its statistics "
             "over the whole batch (model.batchnorm = \"convert-group\" or \"exact\")";
    case Cause::dropout:
      return "use a model whose masks follow the sample (gpt2, llama, bert, vit), or no dropout";
    case Cause::weighting:
      return "return Loss{sum over the terms, how many there were} from the loss, and no mean";
    case Cause::normalization:
      return "leave out the factor or division that depends on the micro-batch";
    case Cause::precision:
      return "keep sums and losses in the parameters' dtype (precision.accumulate = \"fp32\")";
    case Cause::nondeterminism:
      return "take out of the loss what differs from pass to pass (counters, unseeded draws), or "
             "ask libtorch for deterministic algorithms";
    case Cause::batch_coupled_loss:
      return "use a loss that is a sum over samples, or accrue::coupled_step, which takes one over "
             "the whole batch";
    case Cause::unknown:
      return "";
    case Cause::zeroed_mid_window:
      return "clear gradients once, before the first micro-batch";
    case Cause::stepped_mid_window:
      return "call step() once, after the last micro-batch";
  }
  return "";
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
    return "Not conclusive: no difference beyond the bound, but the bound allows too much to prove "
           "anything (" +
           numbers + ").";
  if (report.equal && !report.complete)
    return "No difference in what was compared, which is not everything: see what was left out (" +
           numbers + ").";
  if (report.equal)
    return "Equal: the accumulated gradient is the full batch's, up to rounding (" +
           (report.extent.empty() ? "" : report.extent + "; ") + numbers + ").";
  std::string causes;
  for (const Cause cause : all_causes(report))
    causes += (causes.empty() ? "" : "; and ") + std::string(to_string(cause)) + ", " +
              (cause == Cause::unknown ? meaning(report.place) : meaning(cause));
  return "Not equal: " + causes + " (" + numbers + ").";
}

std::string advice(const Report& report) {
  std::string remedies;
  for (const Cause cause : all_causes(report))
    remedies += (remedies.empty() ? "" : "; ") +
                std::string(cause == Cause::unknown ? remedy(report.place) : remedy(cause));
  return remedies;
}

}  // namespace accrue::proof
