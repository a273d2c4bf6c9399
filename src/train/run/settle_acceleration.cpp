#include "train/run/settle_acceleration.h"

#include "train/plan/acceleration.h"

namespace accrue::train {

void settle_acceleration(Workload& work, const Ranks& ranks,
                         const std::optional<OriginalRun>& repeated) {
  if (!work.model->can_be_accelerated()) return;
  if (repeated && repeated->repetition.keeps_plan && repeated->record->accelerate)
    return accelerate_as(work, *repeated->record->accelerate,
                         repeated->record->folder + " had them");
  decide_acceleration(work);
  const bool mine = work.acceleration->on, all = ranks.all_true(mine);
  if (mine && !all) accelerate_as(work, false, "on another rank");
}

void resume_acceleration(Workload& work, std::optional<bool> of_checkpoint) {
  if (!work.model->can_be_accelerated()) return;
  accelerate_as(work, of_checkpoint.value_or(work.config.model.accelerate == Accelerate::on),
                "the checkpoint says");
}

}  // namespace accrue::train
