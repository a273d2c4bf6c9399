#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace accrue::train {

/// The batch from a window on, as it was decided.
struct BatchChange {
  std::int64_t window = 0;
  std::int64_t size = 0;  ///< in the batch's unit
  bool operator==(const BatchChange&) const = default;
};

/// The batch after all `changes`, in the order of their windows, of a run that began with `begun`.
std::int64_t batch_after(const std::vector<BatchChange>& changes, std::int64_t begun);

/// The changes of a run that goes on from a checkpoint before `window`. Windows that are done had
/// the batches that the checkpoint has. From `window` on the changes are those of run.json: it has
/// one before a checkpoint does, and an older checkpoint may have one that was given up since.
std::vector<BatchChange> changes_to_go_on_with(std::vector<BatchChange> of_checkpoint,
                                               const std::vector<BatchChange>& recorded,
                                               std::int64_t window);

/// `changes` with the batch of `next` from its window on. Changes of that window and of later ones
/// are given up.
std::vector<BatchChange> changed_by_hand(std::vector<BatchChange> changes, const BatchChange& next,
                                         std::int64_t begun);

nlohmann::json batch_changes_to_json(const std::vector<BatchChange>& changes);
/// Throws a json::exception if `list` is not what batch_changes_to_json() made.
std::vector<BatchChange> batch_changes_from_json(const nlohmann::json& list);

}  // namespace accrue::train
