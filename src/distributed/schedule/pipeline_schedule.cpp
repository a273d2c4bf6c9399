#include "distributed/schedule/pipeline_schedule.h"

#include <algorithm>
#include <limits>
#include <string>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

void require_a_stage(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  if (stage < 0 || stage >= stages)
    throw usage_error("pipeline", "a stage below " + std::to_string(stages), std::to_string(stage),
                      "one rank for each of dist.stages");
  if (micro_batches < 1)
    throw usage_error("pipeline", "at least one micro-batch", std::to_string(micro_batches),
                      "a larger batch");
}

}  // namespace

std::vector<PipelinePass> pipeline_schedule(std::int64_t stage, std::int64_t stages,
                                            std::int64_t micro_batches) {
  require_a_stage(stage, stages, micro_batches);
  using enum PipelinePass::Direction;
  const std::int64_t ahead = most_in_flight(stage, stages, micro_batches) - 1;
  std::vector<PipelinePass> passes;
  passes.reserve(static_cast<std::size_t>(2 * micro_batches));
  for (std::int64_t i = 0; i < ahead; ++i) passes.push_back({forward, i});
  for (std::int64_t i = ahead; i < micro_batches; ++i) {
    passes.push_back({forward, i});
    passes.push_back({backward, i - ahead});
  }
  for (std::int64_t i = micro_batches - ahead; i < micro_batches; ++i)
    passes.push_back({backward, i});
  return passes;
}

std::int64_t most_in_flight(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  return std::min(stages - stage, micro_batches);
}

double bubble_fraction(std::int64_t stages, std::int64_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

std::vector<std::size_t> balanced_cuts(std::span<const double> costs, std::int64_t stages) {
  const std::size_t blocks = costs.size(), parts = static_cast<std::size_t>(stages);
  if (stages < 1 || blocks < parts)
    throw usage_error("pipeline",
                      "at most as many stages as the model has blocks (" + std::to_string(blocks) +
                          "), and at least one",
                      std::to_string(stages), "another dist.stages");
  // slowest[p][b] is the cost of the slowest stage in the best division of the first b blocks into
  // p stages; begin[p][b] is where the last of these begins.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> slowest(parts + 1, std::vector<double>(blocks + 1, never));
  std::vector<std::vector<std::size_t>> begin(parts + 1, std::vector<std::size_t>(blocks + 1));
  slowest[0][0] = 0;
  for (std::size_t p = 1; p <= parts; ++p)
    for (std::size_t b = p; b <= blocks; ++b) {
      double last_part = 0;
      for (std::size_t from = b; from-- >= p;) {
        last_part += costs[from];
        const double candidate = std::max(slowest[p - 1][from], last_part);
        if (candidate > slowest[p][b]) continue;
        slowest[p][b] = candidate;
        begin[p][b] = from;
      }
    }
  std::vector<std::size_t> cuts(parts + 1, blocks);
  for (std::size_t p = parts; p > 0; --p) cuts[p - 1] = begin[p][cuts[p]];
  return cuts;
}

}  // namespace accrue::distributed
