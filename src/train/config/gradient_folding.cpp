#include "train/config/gradient_folding.h"

#include "core/words.h"
#include "train/config/accumulation_order.h"

namespace accrue::train {
namespace {

std::optional<Conflict> folding_conflict(const Config& config) {
  const OptimConfig& optim = config.optim;
  if (optim.kind != OptimizerKind::adama && optim.kind != OptimizerKind::sgd)
    return Conflict{"memory.gradients",
                    "\"buffer\" with optim.kind = " + in_quotes(to_string(optim.kind)) +
                        ", which needs the whole mean gradient at once",
                    "\"optimizer\"", "optim.kind = \"sgd\" or \"adama\""};
  if (optim.kind == OptimizerKind::sgd && optim.momentum == 0)
    return Conflict{"memory.gradients",
                    "\"buffer\" where optim.momentum = 0, which leaves no state to fold into",
                    "\"optimizer\"", "optim.momentum = 0.9"};
  if (optim.clip > 0)
    return Conflict{"optim.clip",
                    "0, since the norm of a gradient that is folded as it comes is never known",
                    "a global norm", "optim.clip = 0"};
  if (optim.state == optim::StatePrecision::int8)
    return Conflict{
        "optim.state",
        "\"fp32\" or \"bf16\" where each micro-batch changes the state: 8-bit codes are "
        "rounded to nearest, which loses small changes",
        "\"int8\"", "optim.state = \"bf16\""};
  if (config.precision.accumulate != accum::Accumulation::fp32)
    return Conflict{"precision.accumulate", "\"fp32\", since no sums of gradients are kept",
                    in_quotes(to_string(config.precision.accumulate)),
                    "optim.state for the precision of moments"};
  if (config.precision.compute == models::Compute::fp16)
    return Conflict{
        "precision.compute",
        "another than \"fp16\", whose gradients overflow now and then and are made again "
        "with a smaller loss scale",
        "\"fp16\"", "memory.gradients = \"buffer\", or compute = \"bf16\""};
  if (const std::optional<LayeredKey> order = layered_key(config))
    return Conflict{order->name,
                    "gradients in a buffer with " + order->statement() +
                        ", which takes those of a window's micro-batches in one transaction that "
                        "could not be undone",
                    "gradients that are folded into the optimizer",
                    "memory.gradients = \"buffer\", or " + order->without};
  return std::nullopt;
}

}  // namespace

bool folds_gradients(const Config& config) {
  return config.optim.kind == OptimizerKind::adama ||
         config.memory.gradients == GradientPlace::optimizer;
}

std::optional<Conflict> optimizer_memory_conflict(const Config& config) {
  if (config.optim.state != optim::StatePrecision::fp32 &&
      config.precision.compute == models::Compute::fp64)
    return Conflict{"optim.state", "\"fp32\" with compute = \"fp64\", whose states are fp64",
                    in_quotes(to_string(config.optim.state)), "optim.state = \"fp32\""};
  if (folds_gradients(config)) return folding_conflict(config);
  return std::nullopt;
}

}  // namespace accrue::train
