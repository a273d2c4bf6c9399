#include "accrue/dist/pipeline_schedule.h"

#include <algorithm>
#include <string>

#include "accrue/core/error.h"

namespace accrue::dist {
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

}  // namespace accrue::dist
