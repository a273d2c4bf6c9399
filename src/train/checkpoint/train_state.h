#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrue/adapt/noise_scale.h"
#include "accrue/core/recompute.h"
#include "accrue/optim/schedule.h"
#include "memory/recovery.h"
#include "optim/loss_scale.h"
#include "train/checkpoint/batch_change.h"
#include "train/checkpoint/data_continuity.h"
#include "train/checkpoint/rank_record.h"
#include "train/checkpoint/window_middle.h"

namespace accrue::train {

/// The noise of the gradient as a run measured it, and the decisions about its batch: by the noise,
/// or by hand, as the run was resumed.
struct AdaptState {
  adapt::NoiseAverage::State noise = {};
  adapt::NoiseAverage::State in_geometry = {};  ///< of the norm that decides, if it is another
  std::vector<adapt::NoiseAverage::State> blocks = {};
  /// In the order of their windows. Those that were stated by hand may lie ahead: of a run that
  /// repeats another, or goes back to a checkpoint before them.
  std::vector<BatchChange> changes = {};
  std::int64_t measured = 0;  ///< windows measured since the last change
  /// Over all windows: the batch's units, and the weight of their losses.
  double units = 0, weight = 0;
  /// The logarithm of the product of the second moment's decays, if they follow the batch.
  double log_decay = 0;
  bool operator==(const AdaptState&) const = default;
};

/// The state of a run between two optimizer steps. Together with the parameters and the
/// optimizer's state it determines the next step: randomness and data order are functions of seed
/// and window.
struct TrainState {
  std::int64_t step = 0;    ///< optimizer steps taken
  std::int64_t window = 0;  ///< completed windows; more than `step` if a window had no weight
  /// Of the learning rate; the first version for a checkpoint that does not state it.
  optim::ScheduleVersion schedule = optim::ScheduleVersion::min_after_last_step;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double elapsed = 0;  ///< seconds, over all resumptions
  /// The value of `elapsed` when the current epoch began; none if the run resumed within it from a
  /// checkpoint that does not state it.
  std::optional<double> epoch_began = 0;
  /// The micro-batches of the plan, so that a resumption does not measure them again.
  memory::RecoveryState micro_batches;
  Recompute recompute = Recompute::none;
  std::optional<bool> accelerate = {};  ///< RunPlan::accelerate
  std::vector<RankRecord> ranks = {};   ///< by rank; a checkpoint of one process has none
  /// The last evaluation, so that a run resumed at its step does not repeat it.
  std::optional<std::int64_t> evaluated_step;
  std::optional<double> eval_loss;  ///< its loss; none if it was not finite
  std::optional<double> best_eval;
  std::optional<std::int64_t> best_step;
  DataIdentity data;
  /// How many ranks' inner optimizers the checkpoint holds, if each rank has one; none if all ranks
  /// share one.
  std::optional<std::int64_t> inner_optimizers;
  AdaptState adapt = {};
  std::optional<optim::LossScaler::State> loss_scale = {};  ///< of fp16 alone
  std::vector<int> units;  ///< accum::GradientBuffer::units(); empty without fixed-point sums
  /// Set in checkpoints only: the finished part of the window after `window`, if it was written in
  /// the middle of one. All else is as it was when that window began.
  std::optional<WindowMiddle> middle = {};
};

nlohmann::json to_json(const TrainState& state);

/// Reads back what to_json() wrote. Fields that later versions added may be missing; errors begin
/// with `operation`. Throws a usage Error that names the value that is missing, of another type, or
/// impossible for a run.
TrainState train_state_from_json(const nlohmann::json& in, const std::string& operation);

}  // namespace accrue::train
