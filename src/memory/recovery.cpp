#include "memory/recovery.h"

#include <algorithm>

#include "core/words.h"

namespace accrue::memory {

Recovery::Recovery(RecoveryState state, std::string no_split_because)
    : state_(state), no_split_because_(std::move(no_split_because)) {}

Recovery::Decision Recovery::failed(std::int64_t samples, std::int64_t failures,
                                    std::int64_t needs) {
  state_.quiet_windows = 0;
  if (failures <= 1) return {Action::retry, state_.micro_batch, "it is run once more as it was"};
  if (!no_split_because_.empty())
    return {Action::give_up, state_.micro_batch, "it may not be split, since " + no_split_because_};
  if (samples <= 1) return {Action::give_up, state_.micro_batch, "a single sample does not fit"};
  needs_[samples] = needs;
  state_.micro_batch = std::min(state_.micro_batch, (samples + 1) / 2);
  return {Action::split, state_.micro_batch,
          "from here on micro-batches have " + counted(state_.micro_batch, "sample") +
              ", and the batch stays"};
}

bool Recovery::is_known_to_need_more(std::int64_t samples, std::int64_t limit) const {
  return std::ranges::any_of(
      needs_, [&](const auto& known) { return known.first <= samples && known.second > limit; });
}

Recovery::Decision Recovery::grow_to(std::int64_t samples, const std::string& cause) {
  state_.quiet_windows = 0;
  state_.micro_batch = samples;
  return {Action::retry, samples, cause + ": micro-batches grow to " + counted(samples, "sample")};
}

std::optional<Recovery::Decision> Recovery::limit_raised(std::optional<std::int64_t> limit) {
  std::int64_t size = state_.micro_batch;
  while (size < state_.planned) {
    const std::int64_t larger = std::min(state_.planned, 2 * size);
    if (limit && is_known_to_need_more(larger, *limit)) break;
    size = larger;
  }
  if (size == state_.micro_batch) return {};
  return grow_to(size, "there is more memory than before");
}

std::optional<Recovery::Decision> Recovery::window_done(bool quiet) {
  state_.quiet_windows = quiet ? state_.quiet_windows + 1 : 0;
  if (!no_split_because_.empty()) return {};
  if (state_.micro_batch >= state_.planned || state_.quiet_windows < kPatience) return {};
  return grow_to(std::min(state_.planned, 2 * state_.micro_batch),
                 std::to_string(kPatience) + " windows passed without running out of memory");
}

}  // namespace accrue::memory
