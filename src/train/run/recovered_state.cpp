#include "train/run/recovered_state.h"

#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/memory/shard_scope.h"
#include "core/words.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_record.h"
#include "train/ranks/divided_state.h"
#include "train/ranks/shared_state.h"
#include "train/workload/batch_changes.h"

namespace accrue::train {
namespace {

std::int64_t step_of(const std::optional<TrainState>& mine) {
  return mine ? mine->step : StateParts::kNone;
}

/// A run's state in its last checkpoint, on the first rank; empty on the others.
struct LastCheckpoint {
  std::optional<TrainState> state = {};
  StoredTensors model = {};  ///< if ranks divide it; otherwise it is loaded
  StateSources optimizer = {};
  std::string why_not = {};  ///< if there is none
};

/// The state in `checkpoint`, adapted to the present run.
TrainState state_in(const VerifiedCheckpoint& checkpoint, const ChangingRun& run) {
  TrainState state = checkpoint.state();
  state.data = run.data;
  state.middle.reset();
  // The checkpoint may be of before the last change of the batch by hand.
  if (!batch_changes(run.work.config))
    state.adapt.changes = changes_to_go_on_with(
        std::move(state.adapt.changes), recorded_batch_changes(run.copies.record()), state.window);
  if (!state.ranks.empty()) state.ranks = records_for(run.ranks.world(), state.ranks);
  return state;
}

bool divides_model(const ChangingRun& run) { return run.work.config.dist.shard == Shard::all; }

/// Makes the parts of the model those of the present ranks. Values are lost.
void divide_model_again(const ChangingRun& run) {
  memory::divide_by(run.ranks.slice(run.work.config));
  std::vector<at::Tensor> trained;
  for (const NamedParameter& parameter : optim::trained_of(run.work.model->parameters()))
    trained.push_back(parameter.tensor);
  memory::keep_in_scope(trained, trained);
  for (std::size_t i = 0; i < trained.size(); ++i) memory::keep_part(trained[i], i);
}

LastCheckpoint load_last(const ChangingRun& run, const optim::Optimizer& like) {
  if (!run.ranks.is_first()) return {};
  try {
    const std::optional<VerifiedCheckpoint> newest = newest_checkpoint(run.copies);
    if (!newest) return {.why_not = "no checkpoint was written yet"};
    StateSources optimizer = sources_of(newest->optimizer(), newest->state().step, like);
    StoredTensors model;
    if (divides_model(run))
      model = newest->model();
    else
      newest->load(*run.work.model);
    return {.state = state_in(*newest, run),
            .model = std::move(model),
            .optimizer = std::move(optimizer)};
  } catch (const Error& error) {
    return {.why_not = error.what()};
  }
}

Error nowhere_to_go(const std::string& why_not) {
  return runtime_error("go on with other ranks",
                       "all of the optimizer's state, or a checkpoint to go back to",
                       "a part that is lost" + (why_not.empty() ? "" : ", and " + why_not),
                       "--resume, or starting the run again");
}

std::string why_back(const Config& config) {
  if (config.dist.shard == Shard::all)
    return "no other rank has its part of the model (dist.shard = \"all\")";
  const std::string lost = "a part of the optimizer's state is lost";
  if (config.dist.shard_replica == ShardReplica::next) return lost + " with its replica";
  return lost + " (dist.shard_replica = \"none\")";
}

RecoveredState share_whole_state(const ChangingRun& run, std::optional<TrainState>& mine) {
  if (!run.optimizer) run.optimizer.emplace(run.ranks, run.work);
  SharedState shared = share_state(run.ranks, mine, run.work.model.get(), &run.optimizer->whole());
  mine = shared.state;
  if (shared.was_sent) run.ranks.check_state(run.work, run.optimizer->whole(), shared.state.step);
  return {std::move(shared.state), {}};
}

RecoveredState share_divided_state(const ChangingRun& run, std::optional<TrainState>& mine) {
  RunOptimizer next(run.ranks, run.work);
  StateSources sources;
  StoredTensors model;
  // Without its group a rank's part of the model belongs to no step.
  if (divides_model(run)) {
    mine.reset();
    divide_model_again(run);
  } else if (run.optimizer) {
    sources = sources_of(*run.optimizer);
  }
  auto division = agree_on_division(run.ranks, step_of(mine), sources, next.whole());
  std::string remark;
  if (division && division->needs_replicas)
    remark = "what it had of the optimizer's state comes from its replica; ";
  if (!division) {
    LastCheckpoint last = load_last(run, next.whole());
    mine = std::move(last.state);
    model = std::move(last.model);
    sources = std::move(last.optimizer);
    division = agree_on_division(run.ranks, step_of(mine), sources, next.whole());
    if (!division) throw nowhere_to_go(last.why_not);
    remark = why_back(run.work.config) + ", so the run goes back to the checkpoint of step " +
             std::to_string(division->step) + "; ";
  }
  if (step_of(mine) != division->step) mine.reset();
  SharedState shared =
      share_state(run.ranks, mine, divides_model(run) ? nullptr : run.work.model.get(), nullptr);
  if (divides_model(run)) share_model(run.ranks, model, *run.work.model);
  mine = shared.state;
  if (shared.was_sent) run.ranks.check_state(run.work, next.whole(), shared.state.step);
  transfer_state(run.ranks, *division, sources, next.whole());
  next.bring_replica_up_to_date();
  run.optimizer = std::move(next);
  return {std::move(shared.state), std::move(remark)};
}

}  // namespace

RecoveredState recover_common_state(const ChangingRun& run, std::optional<TrainState>& mine) {
  return run.work.config.dist.shard == Shard::none ? share_whole_state(run, mine)
                                                   : share_divided_state(run, mine);
}

}  // namespace accrue::train
