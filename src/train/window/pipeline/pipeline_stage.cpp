#include "train/window/pipeline/pipeline_stage.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "accrue/core/clock.h"
#include "distributed/schedule/pipeline_schedule.h"

namespace accrue::train {
namespace {

using models::Activations;
using models::Segment;

constexpr int kTimed = 3;

/// The first segment of each block, and the end of the last one.
std::vector<std::size_t> block_bounds(const std::vector<Segment>& segments) {
  std::vector<std::size_t> bounds{0};
  for (std::size_t i = 1; i < segments.size(); ++i)
    if (segments[i].begins_block) bounds.push_back(i);
  bounds.push_back(segments.size());
  return bounds;
}

/// Times one forward pass, by block; the losses are added to the last.
std::vector<double> forward_seconds(models::Trainable& model, const std::vector<Segment>& segments,
                                    const std::vector<std::size_t>& bounds,
                                    const batch::MicroBatch& micro) {
  const at::NoGradGuard no_grad;
  const ForwardContext context = batch::evaluation_context(micro);
  std::vector<double> seconds;
  Activations activations;
  Stopwatch watch;
  for (std::size_t block = 0; block + 1 < bounds.size(); ++block) {
    for (std::size_t i = bounds[block]; i < bounds[block + 1]; ++i)
      activations = models::run_segment(segments[i], activations, micro, context);
    if (block + 2 == bounds.size())
      for (const models::LossHead& head : model.losses())
        head.forward(activations, micro, context, 1);
    seconds.push_back(watch.seconds());
    watch.restart();
  }
  return seconds;
}

std::vector<double> fastest_forward(models::Trainable& model, const std::vector<Segment>& segments,
                                    const std::vector<std::size_t>& bounds,
                                    const batch::MicroBatch& micro) {
  // The first pass prepares kernels for their shapes, and is not counted.
  forward_seconds(model, segments, bounds, micro);
  std::vector<double> best(bounds.size() - 1, std::numeric_limits<double>::infinity());
  for (int run = 0; run < kTimed; ++run) {
    const std::vector<double> seconds = forward_seconds(model, segments, bounds, micro);
    std::ranges::transform(best, seconds, best.begin(),
                           [](double a, double b) { return std::min(a, b); });
  }
  return best;
}

}  // namespace

PipelineStage make_pipeline_stage(std::shared_ptr<distributed::Group> group,
                                  models::Trainable& model, const batch::MicroBatch& micro) {
  std::vector<Segment> segments = model.segments();
  const std::vector<std::size_t> bounds = block_bounds(segments);
  std::vector<double> costs(bounds.size() - 1, 1);
  if (group->rank() == 0) costs = fastest_forward(model, segments, bounds, micro);
  const at::Tensor agreed = at::tensor(costs, at::kDouble);
  group->broadcast(agreed, 0, "how long the model's blocks take");
  const std::vector<std::size_t> cuts =
      distributed::balanced_cuts({agreed.const_data_ptr<double>(), costs.size()}, group->world());
  std::string division;
  for (std::size_t stage = 0; stage + 1 < cuts.size(); ++stage)
    division += (stage == 0 ? "" : " | ") + segments[bounds[cuts[stage]]].name + " to " +
                segments[bounds[cuts[stage + 1]] - 1].name;
  const auto rank = static_cast<std::size_t>(group->rank());
  const auto at_cut = [&](std::size_t cut) {
    return segments.begin() + static_cast<std::ptrdiff_t>(bounds[cuts[cut]]);
  };
  return {.group = std::move(group),
          .segments = {at_cut(rank), at_cut(rank + 1)},
          .division = std::move(division)};
}

}  // namespace accrue::train
