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

/// What a run measured of its gradient's noise, and what was decided about its batch: by the noise,
/// or by hand, as the run was resumed.
struct AdaptState {
  adapt::NoiseAverage::State noise = {};
  adapt::NoiseAverage::State in_geometry = {};  ///< of the norm that decides, where it is another
  std::vector<adapt::NoiseAverage::State> blocks = {};
  /// In the order of their windows. Those that were stated by hand may lie ahead: of a run that
  /// repeats another, or goes back to a checkpoint before them.
  std::vector<BatchChange> changes = {};
  std::int64_t measured = 0;  ///< windows measured since the last change
  /// Of all windows: what the batch's unit counts of them, and the weight of their losses.
  double units = 0, weight = 0;
  /// The logarithm of the product of the second moment's decays, where they follow the batch.
  double log_decay = 0;
  bool operator==(const AdaptState&) const = default;
};

/// Where a run stands between two optimizer steps. With the parameters and the optimizer's state it
/// is all that the next step depends on: randomness and data order are functions of seed and
/// window.
struct TrainState {
  std::int64_t step = 0;    ///< optimizer steps taken
  std::int64_t window = 0;  ///< windows done; more than `step` if a window had no weight
  /// Of the learning rate; a checkpoint that does not tell is of the first.
  optim::ScheduleVersion schedule = optim::ScheduleVersion::min_after_last_step;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double elapsed = 0;  ///< seconds, over all resumptions
  /// What `elapsed` was when the epoch under way began; none if the run goes on within it from a
  /// checkpoint that does not tell.
  std::optional<double> epoch_began = 0;
  /// The micro-batches of the plan: a resume does not measure anew.
  memory::RecoveryState micro_batches;
  Recompute recompute = Recompute::none;
  std::optional<bool> accelerate = {};  ///< RunPlan::accelerate
  std::vector<RankRecord> ranks = {};   ///< by rank; a checkpoint of one process has none
  /// The last evaluation, so that a run that is resumed where it was made does not make it again.
  std::optional<std::int64_t> evaluated_step;
  std::optional<double> eval_loss;  ///< its loss; none if it was not finite
  std::optional<double> best_eval;
  std::optional<std::int64_t> best_step;
  DataIdentity data;
  /// How many ranks' inner optimizers the checkpoint holds, where each has its own; none: one for
  /// all.
  std::optional<std::int64_t> inner_optimizers;
  AdaptState adapt = {};
  std::optional<optim::LossScaler::State> loss_scale = {};  ///< of fp16 alone
  std::vector<int> units;  ///< accum::GradientBuffer::units(); empty without fixed-point sums
  /// Of a checkpoint alone: what is done of the window behind `window`, where it was written in the
  /// middle of one. All else is as it was when that window began.
  std::optional<WindowMiddle> middle = {};
};

nlohmann::json to_json(const TrainState& state);

/// Reads back what to_json() wrote. What later versions added may be missing; `operation` begins
/// the errors. Throws a usage Error that names the value which is missing, of another type, or none
/// that a run can have.
TrainState train_state_from_json(const nlohmann::json& in, const std::string& operation);

}  // namespace accrue::train
