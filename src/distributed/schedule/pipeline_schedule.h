#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace accrue::distributed {

/// One pass of a stage over one micro-batch.
struct PipelinePass {
  enum class Direction { forward, backward };
  Direction direction = Direction::forward;
  std::int64_t micro_batch = 0;
  bool operator==(const PipelinePass&) const = default;
};

/// The passes of stage `stage` of `stages` for a window's micro-batches, in this order: one
/// forward, one backward with a flush at the end of the window (Narayanan et al., arXiv:2104.04473,
/// section 2.2.1). Every pass comes once; backward passes come in order of micro-batch on every
/// stage, so a stage adds its gradients in the same order as one process would. At most
/// `most_in_flight(stage, stages, micro_batches)` micro-batches have their activations kept.
///
/// A forward pass waits for the micro-batch's activations from the stage before, a backward pass
/// for its gradient from the stage after. Each link must hold one message per direction that was
/// sent and not yet requested: if a send waits for its receiver (0 held), two stages deadlock.
///
/// Throws a usage Error if `stage` is none of 0 ... stages - 1, or there is no micro-batch.
std::vector<PipelinePass> pipeline_schedule(std::int64_t stage, std::int64_t stages,
                                            std::int64_t micro_batches);

/// How many micro-batches stage `stage` has in flight: min(stages - stage, micro_batches).
std::int64_t most_in_flight(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches);

/// The share of the time in which a stage of a balanced pipeline waits: (stages - 1) /
/// (micro_batches + stages - 1).
double bubble_fraction(std::int64_t stages, std::int64_t micro_batches);

/// The cuts of a chain of blocks that take `costs` seconds each into `stages` parts, so that the
/// slowest is as fast as possible: stages + 1 ascending positions, the first 0 and the last
/// costs.size(). No stage is empty; of several such divisions it is the one whose last stage, and
/// then whose stage before it, begins earliest. Throws a usage Error if there are fewer blocks than
/// stages.
std::vector<std::size_t> balanced_cuts(std::span<const double> costs, std::int64_t stages);

}  // namespace accrue::distributed
