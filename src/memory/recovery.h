#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace accrue::memory {

/// Where a run stands with its micro-batches: plain data, part of a checkpoint.
struct RecoveryState {
  std::int64_t planned = 1;        ///< samples of a micro-batch, as the plan says
  std::int64_t micro_batch = 1;    ///< samples of a micro-batch now, at most `planned`
  std::int64_t quiet_windows = 0;  ///< in a row, since memory ran out or the size changed
};

/// What to do about memory that ran out: run the same micro-batch once more, as others may have
/// taken the memory for a moment; then halve it; and where one sample does not fit, give up.
///
/// After `kPatience` quiet windows in a row the size doubles, at most to the planned one. So it
/// goes down and up again at most once in that many windows, unless the limit itself is raised:
/// then it grows at once, to the largest size that is not known to need more.
class Recovery {
 public:
  static constexpr std::int64_t kPatience = 100;

  enum class Action { retry, split, give_up };
  struct Decision {
    Action action = Action::retry;
    std::int64_t micro_batch = 1;  ///< samples of a micro-batch from here on
    std::string reason;
  };

  /// `no_split_because` says why the size may not change (it is part of the mathematics); empty
  /// if it may.
  explicit Recovery(RecoveryState state, std::string no_split_because = {});

  /// To be called after a micro-batch of `samples` ran out of memory `failures` (>= 1) times in a
  /// row. `needs` is the bytes that tensors would have taken at least; 0: not known.
  Decision failed(std::int64_t samples, std::int64_t failures, std::int64_t needs = 0);
  /// To be called after tensors were allowed more: `limit` bytes now, or all that there is. Returns
  /// a decision for the next window where the size grows.
  std::optional<Decision> limit_raised(std::optional<std::int64_t> limit);
  /// To be called after each window that was closed; `quiet` says that nothing in it ran out of
  /// memory. Returns a decision for the next window where the size grows.
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
