#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "accrue/batch/order.h"

namespace accrue::batch {

/// A half-open range of draw ordinals.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

class ChangingWindows;
class VariableWindows;

/// Which samples each optimizer step takes. Draw ordinals count epoch * N + position; a window
/// never crosses an epoch's end: an epoch's last window is short (rightly weighted) or there is
/// none (LastWindow).
///
/// Written as an aggregate, each full window has `samples_per_window` samples. If samples differ
/// in length, make it with `variable_window_schedule` (batch/variable_windows.h); where the batch
/// changes, set `changing`.
struct WindowSchedule {
  std::int64_t samples_per_epoch = 0;  ///< N >= 1
  /// >= 1; the first epoch's mean where windows go by tokens; the most where the batch changes.
  std::int64_t samples_per_window = 0;
  LastWindow last = LastWindow::weighted;
  std::int64_t tokens_per_sample = 0;  ///< where all samples have as many; 0: not stated
  std::shared_ptr<const VariableWindows> variable;  ///< null if all samples have as many tokens
  std::shared_ptr<const ChangingWindows> changing;  ///< null if the batch stays as it is

  /// The windows of an epoch; of the first one, where epochs differ.
  std::int64_t windows_per_epoch() const;
  std::int64_t windows_in_epoch(std::int64_t epoch) const;
  /// Ordinals of window `index` (0-based over the run). Empty only if an epoch has no window.
  Range window(std::int64_t index) const;
  /// Input tokens of window `index` that are not padding; 0 if `tokens_per_sample` is not
  /// stated.
  std::int64_t tokens(std::int64_t index) const;
  /// Epochs done when window `index` begins, fractional.
  double epoch_at(std::int64_t index) const;
  /// Windows of a run of `epochs`, a part of an epoch rounded to whole windows; at least 1 where an
  /// epoch has any.
  std::int64_t windows_of_epochs(double epochs) const;
  /// The fewest windows that hold `tokens` together, or 0 if an epoch has no window. Throws a
  /// usage Error if `tokens_per_sample` is not stated.
  std::int64_t windows_of_tokens(std::int64_t tokens) const;
};

/// Splits a window into micro-batches of `micro` samples, the last one short. `micro` >= 1.
std::vector<Range> split(Range window, std::int64_t micro);

/// Splits the samples of `ranges` anew: those that follow each other as one, and none across a gap.
std::vector<Range> split_anew(std::span<const Range> ranges, std::int64_t micro);

/// Samples in a batch of `tokens` input tokens with a fixed context. Throws a usage Error that
/// names both neighbouring multiples where `tokens` is not a positive multiple of `context`.
std::int64_t samples_of_tokens(std::int64_t tokens, std::int64_t context);

/// Micro-batches each of `world` ranks runs: ceil-balanced, the first ranks take the remainder.
std::vector<std::int64_t> micro_batches_per_rank(std::int64_t samples, std::int64_t micro,
                                                 std::int64_t world);

}  // namespace accrue::batch
