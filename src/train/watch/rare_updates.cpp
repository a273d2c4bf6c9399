#include "train/watch/rare_updates.h"

#include "core/words.h"

namespace accrue::train {
namespace {

/// A cosine over fewer updates changes the rate by more than a tenth of its peak from one to the
/// next.
constexpr std::int64_t fewest_of_a_schedule = 16;

std::string of_batch(const UpdateCount& updates) {
  return "the batch of " + digit_groups(updates.samples) +
         (updates.samples == 1 ? " sample" : " samples") + " is suspected, which leaves " +
         counted(updates.steps, "step");
}

}  // namespace

std::string rare_updates(const optim::LearningRate& schedule, const UpdateCount& updates) {
  if (schedule.warmup >= updates.steps && schedule.warmup > 0)
    return "the warm-up of " + counted(schedule.warmup, "step") + " takes the whole run of " +
           counted(updates.steps, "step") + ": " +
           (updates.is_stated ? "optim.schedule.warmup is suspected, stated for a longer run"
                              : of_batch(updates)) +
           "; try a warm-up in percent, such as \"5%\", or a smaller batch";
  const bool follows_from_batch = !updates.is_stated && updates.accumulation_steps > 1;
  if (schedule.kind == optim::ScheduleKind::constant || !follows_from_batch ||
      updates.steps >= fewest_of_a_schedule)
    return {};
  return "the learning rate falls to its end in " + counted(updates.steps, "step") +
         ", so it jumps between them: " + of_batch(updates) +
         "; try a smaller batch, which makes more steps, or optim.schedule.kind = \"constant\"";
}

}  // namespace accrue::train
