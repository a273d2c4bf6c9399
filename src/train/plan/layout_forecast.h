#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/choices.h"
#include "memory/estimate.h"
#include "memory/plan.h"
#include "train/plan/offload_forecast.h"
#include "train/plan/plan_estimate.h"
#include "train/plan/rank_transfers.h"

namespace accrue::train {

/// The state that ranks divide among themselves under a value of dist.shard, which decides what
/// they exchange. Undivided sums are added on all ranks. If the moments are divided, each sum is
/// needed on its owner only, and the parameters return to all ranks after the step, unless they
/// are divided, too: then they come with each segment's forward and backward passes.
struct ShardedState {
  Shard shard = Shard::none;
  bool parameters = false;
  bool sums = false;
  bool moments = false;
};
/// A row for each value of dist.shard that a run can have.
inline constexpr auto sharded_states = std::to_array<ShardedState>(
    {{.shard = Shard::none},
     {.shard = Shard::optimizer, .moments = true},
     {.shard = Shard::all, .parameters = true, .sums = true, .moments = true}});

/// How ranks share a run.
struct RankLayout {
  ShardedState state;
  bool in_stages = false;  ///< dist.stages = ranks; otherwise each rank runs the whole model
  AccumulationOrder order = AccumulationOrder::standard;  ///< never automatic
  bool offloads = false;                                  ///< memory.offload, in layered order
};

/// A run, as arithmetic knows it.
struct LayoutFacts {
  std::int64_t batch_samples = 1;
  std::optional<std::int64_t> micro_batch;  ///< if it is stated
  std::vector<RunEstimate::Mode> modes;     ///< those that may be chosen in standard order
  /// Activations of one sample while one segment runs, beside those at the cuts.
  std::int64_t segment_sample_bytes = 0;
  RunEstimate::Chain chain;
  std::int64_t trained = 0;     ///< parameters
  memory::Storage storage;      ///< of a trained parameter
  memory::Resident held;        ///< by one process, frozen parameters included
  double flops_per_sample = 0;  ///< forward and backward, nothing recomputed
  bool sums_overlap = true;     ///< dist.reduce = "overlap"
  bool has_frozen = false;      ///< parameters that are not trained
  bool copies_moments = false;  ///< dist.shard_replica = "next", if the moments are divided
};

/// The prediction for one optimizer step.
struct LayoutForecast {
  RankLayout layout;
  memory::PlanPoint point;
  std::int64_t micro_batches = 1;  ///< of the rank with most
  /// Of one rank. `temporaries` are activations at cuts, and on their way between stages.
  memory::Breakdown bytes;
  /// Whether the cuts of a window in layered order lie in a file (decide_activation_placement):
  /// `bytes` are without them then, and its time is not counted.
  bool cuts_in_file = false;
  Transfer transfer;           ///< all exchanges of the window
  double compute_seconds = 0;  ///< of the rank with most to do
  double waiting_seconds = 0;  ///< of a stage for the others, while its pipeline fills and drains
  double exposed_seconds = 0;  ///< transfers, also with the disk, that no computing hides
  std::optional<OffloadForecast> disk;  ///< of a rank, without its folder
  bool fits = false;                    ///< with memory::kPlanMargin

  double seconds() const { return compute_seconds + waiting_seconds + exposed_seconds; }
};

/// Why ranks cannot run the layout, whatever their memory; empty if they can. A pure function.
std::string obstacle_of(const RankLayout& layout, const LayoutFacts& facts,
                        const RankMachines& machines);

/// Predicts a window of a layout that has no obstacle. Not counted: the step of an optimizer in
/// memory, the loss's logits, and delays of single messages. Recomputation of the selective kind
/// counts as free, full recomputation and layered order as one more forward pass; a forward pass is
/// a third of forward and backward. The blocks of a model take equally long. A pure function.
LayoutForecast forecast_layout(const RankLayout& layout, const memory::PlanPoint& point,
                               const LayoutFacts& facts, const RankMachines& machines);

}  // namespace accrue::train
