#include "train/plan/offload_room.h"

#include <optional>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "train/plan/plan_estimate.h"
#include "train/workload/offload_folder.h"

namespace accrue::train {

void check_offload_budget(const Config& config) {
  const std::optional<std::int64_t> budget = offload_budget(config);
  // A program's own model would have to be made first.
  if (!budget || config.model.kind == ModelKind::custom) return;
  const std::optional<RunEstimate> estimate = estimate_if_known(config);
  if (!estimate || estimate->surely_offloaded.total() <= *budget) return;
  const memory::Resident& state = estimate->held;
  constexpr double kWithMargin = 1.02;  // blocks are whole pages
  const auto likely = static_cast<std::int64_t>(kWithMargin * static_cast<double>(state.total()));
  throw Error(Error::Kind::refused,
              "memory.offload_budget = \"" + config.memory.offload_budget + "\"",
              format_bytes(state.total()) + " for the state: " + format_bytes(state.parameters) +
                  " of parameters, " + format_bytes(state.gradients) + " of gradient sums and " +
                  format_bytes(state.optimizer) + " of optimizer state",
              format_bytes(*budget),
              "memory.offload_budget = \"" + format_bytes_rounded_up(likely) +
                  "\", optim.state = \"bf16\", or a smaller model");
}

}  // namespace accrue::train
