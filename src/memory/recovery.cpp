#include "accrue/memory/recovery.h"

#include <algorithm>

namespace accrue::memory {
namespace {

std::string samples_in_words(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " sample" : " samples");
}

}  // namespace

Recovery::Recovery(RecoveryState state, std::string no_split_because)
    : state_(state), no_split_because_(std::move(no_split_because)) {}

Recovery::Decision Recovery::failed(std::int64_t samples, std::int64_t failures) {
  state_.quiet_windows = 0;
  if (failures <= 1) return {Action::retry, state_.micro_batch, "it is run once more as it was"};
  if (!no_split_because_.empty())
    return {Action::give_up, state_.micro_batch, "it may not be split, since " + no_split_because_};
  if (samples <= 1) return {Action::give_up, state_.micro_batch, "a single sample does not fit"};
  state_.micro_batch = std::min(state_.micro_batch, (samples + 1) / 2);
  return {Action::split, state_.micro_batch,
          "from here on micro-batches have " + samples_in_words(state_.micro_batch) +
              ", and the batch stays"};
}

std::optional<Recovery::Decision> Recovery::window_done(bool quiet) {
  state_.quiet_windows = quiet ? state_.quiet_windows + 1 : 0;
  if (!no_split_because_.empty()) return {};
  if (state_.micro_batch >= state_.planned || state_.quiet_windows < kPatience) return {};
  state_.quiet_windows = 0;
  state_.micro_batch = std::min(state_.planned, 2 * state_.micro_batch);
  return Decision{Action::retry, state_.micro_batch,
                  std::to_string(kPatience) +
                      " windows passed without running out of memory: micro-batches grow to " +
                      samples_in_words(state_.micro_batch)};
}

}  // namespace accrue::memory
