#include "train/ranks/parallelism.h"

#include <algorithm>

#include "train/ranks/local_steps.h"
#include "train/ranks/pipeline_stages.h"
#include "train/ranks/shared_windows.h"
#include "train/ranks/single_process.h"

namespace accrue::train {

bool Parallelism::follow_limits(const std::vector<double>& speeds) {
  return std::ranges::all_of(speeds, [](double speed) { return speed > 0; });
}
void Parallelism::window_done(std::int64_t, const WindowRun&) {}
bool Parallelism::takes_outer_step_after(std::int64_t) const { return false; }
bool Parallelism::is_within_round(std::int64_t) const { return false; }
void Parallelism::after_step(TrainState&, WindowRun&) {}
void Parallelism::report(const WindowRun&, StepReport&) const {}
std::optional<bool> Parallelism::agreed_to_write(bool) { return std::nullopt; }
StoredTensors Parallelism::gather_optimizer() const { return {}; }
StoredTensors Parallelism::gather_model(const NamedParameters&) const { return {}; }
NamedParameters Parallelism::state(TrainState&) { return {}; }
void Parallelism::load_state(const StoredTensors&, const TrainState&) {}
std::string Parallelism::remark(std::int64_t) const { return {}; }

std::unique_ptr<Parallelism> make_parallelism(const ParallelismContext& context) {
  if (context.config.dist.takes_outer_steps()) return std::make_unique<LocalSteps>(context);
  if (!context.ranks.are_many()) return std::make_unique<SingleProcess>(context.state.ranks);
  if (context.config.dist.stages > 1) return std::make_unique<PipelineStages>(context);
  return std::make_unique<SharedWindows>(context);
}

}  // namespace accrue::train
