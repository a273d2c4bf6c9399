#include "train/run/kept_windows.h"

#include <utility>

#include "train/config/gradient_folding.h"
#include "train/run/noise_record.h"
#include "train/workload/batch_changes.h"

namespace accrue::train {
namespace {

/// Whether `parts`, which share no samples, are all of `window`.
bool is_made_of(batch::Range window, const std::vector<batch::Range>& parts) {
  std::int64_t samples = 0;
  for (const batch::Range& part : parts) {
    if (part.begin < window.begin || part.end > window.end) return false;
    samples += part.size();
  }
  return samples == window.size();
}

/// Empty if the window continues.
std::string why_window_begins_again(const Resumed& resumed, const Workload& work,
                                    std::int64_t world) {
  const TrainState& state = resumed.state;
  if (std::string reason = why_windows_are_not_kept(work, world); !reason.empty()) return reason;
  if (!resumed.data_change.empty()) return "what is done of it was done with other data";
  if (state.middle->exclude != work.config.data.exclude)
    return "other samples are left out (data.exclude) than when a part of it was done";
  const batch::Range now = with_changes(work, state.adapt.changes).window(state.window);
  return is_made_of(now, state.middle->micro_batches) ? "" : "its batch is another one now";
}

/// Why ranks cannot save shared windows in their middle; empty if they can.
std::string why_ranks_do_not_keep(const Config& config) {
  if (config.dist.stages > 1)
    return "each stage of a pipeline runs all micro-batches, and none of them is done before it is "
           "through all stages";
  if (config.dist.shard != Shard::none)
    return "each rank adds up its slice of the sums alone (dist.shard)";
  if (config.dist.compress != distributed::Compression::none)
    return "compressed sums are made for a step, and what they leave out is kept for the next one "
           "(dist.compress)";
  if (uses_noise(config))
    return "the batch or its learning rate follows the gradient's noise, which is measured on the "
           "first micro-batches of ranks that run a whole window (adapt)";
  return {};
}

}  // namespace

std::string why_windows_are_not_kept(const Workload& work, std::int64_t world) {
  if (work.config.dist.takes_outer_steps())
    return "a run with outer steps (dist.local_steps, dist.outer) stops after a step";
  if (folds_gradients(work.config))
    return "gradients are folded into the optimizer's state, and such a window is finished";
  if (is_layered(work.config, *work.model))
    return "layered accumulation (memory.accumulation, model.batchnorm = \"exact\") runs all "
           "micro-batches through one segment before the next, so that none of them is done before "
           "the others";
  return world > 1 ? why_ranks_do_not_keep(work.config) : "";
}

void settle_started_window(Resumed& resumed, const Workload& work, std::int64_t world) {
  if (!resumed.state.middle) return;
  resumed.window_begins_again = why_window_begins_again(resumed, work, world);
  if (resumed.window_begins_again.empty()) return;
  resumed.state.middle.reset();
  resumed.window.clear();
}

std::optional<StartedWindow> part_of_started_window(const ChangingRun& run, TrainState& state,
                                                    StoredTensors& of_window) {
  std::optional<StartedWindow> mine;
  if (run.ranks.is_first() && state.middle) mine = {*state.middle, of_window};
  if (!run.ranks.is_first()) {
    state.middle.reset();
    of_window.clear();
  }
  return part_of_window(run, state, std::move(mine));
}

}  // namespace accrue::train
