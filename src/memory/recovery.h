#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace accrue::memory {

/// The state of a run's micro-batches: plain data, part of a checkpoint.
struct RecoveryState {
  std::int64_t planned = 1;        ///< samples of a micro-batch in the plan
  std::int64_t micro_batch = 1;    ///< current samples of a micro-batch, at most `planned`
  std::int64_t quiet_windows = 0;  ///< in a row, since memory ran out or the size changed
};

/// The reaction to running out of memory: run the same micro-batch once more, since other programs
/// may have taken the memory for a moment; then halve it; and give up if one sample does not fit.
///
/// After `kPatience` quiet windows in a row the size doubles, up to the planned one. So it changes
/// down and up at most once in that many windows, unless the limit itself is raised: then it grows
/// at once, to the largest size that is not known to need more.
class Recovery {
 public:
  static constexpr std::int64_t kPatience = 100;

  enum class Action { retry, split, give_up };
  struct Decision {
    Action action = Action::retry;
    std::int64_t micro_batch = 1;  ///< from here on
    std::string reason;
  };

  /// `no_split_because` is the reason why the size may not change (it is part of the mathematics);
  /// empty if it may.
  explicit Recovery(RecoveryState state, std::string no_split_because = {});

  /// Call after a micro-batch of `samples` ran out of memory `failures` (>= 1) times in a row.
  /// `needs` is a lower bound of the bytes in tensors; 0: unknown.
  Decision failed(std::int64_t samples, std::int64_t failures, std::int64_t needs = 0);
  /// Call after the limit for tensors was raised to `limit` bytes, or removed. Returns a decision
  /// for the next window if the size grows.
  std::optional<Decision> limit_raised(std::optional<std::int64_t> limit);
  /// Call after each closed window; `quiet` means that nothing in it ran out of memory. Returns a
  /// decision for the next window if the size grows.
  std::optional<Decision> window_done(bool quiet);

  const RecoveryState& state() const { return state_; }

 private:
  bool is_known_to_need_more(std::int64_t samples, std::int64_t limit) const;
  Decision grow_to(std::int64_t samples, const std::string& cause);

  RecoveryState state_;
  std::string no_split_because_;
  std::map<std::int64_t, std::int64_t>
      needs_;  ///< least bytes, by samples of a micro-batch that was split
};

}  // namespace accrue::memory
