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

/// The samples of each optimizer step. Draw ordinals count epoch * N + position. A window never
/// crosses an epoch's end: an epoch's last window is short (with the right weight) or left out
/// (LastWindow).
///
/// As an aggregate, each full window has `samples_per_window` samples. If samples differ in length,
/// make it with `variable_window_schedule` (batch/variable_windows.h); if the batch changes, set
/// `changing`.
struct WindowSchedule {
  std::int64_t samples_per_epoch = 0;  ///< N >= 1
  /// >= 1; the first epoch's mean if windows count tokens; the most if the batch changes.
  std::int64_t samples_per_window = 0;
  LastWindow last = LastWindow::weighted;
  std::int64_t tokens_per_sample = 0;  ///< if all samples have the same number; 0: not stated
  std::shared_ptr<const VariableWindows> variable;  ///< null if all samples have equal token counts
  std::shared_ptr<const ChangingWindows> changing;  ///< null if the batch is constant

  /// The windows of an epoch; those of the first one, if epochs differ.
  std::int64_t windows_per_epoch() const;
  std::int64_t windows_in_epoch(std::int64_t epoch) const;
  /// Ordinals of window `index` (0-based over the run). Empty only if an epoch has no window.
  Range window(std::int64_t index) const;
  /// Input tokens of window `index` without padding; 0 if `tokens_per_sample` is not
  /// stated.
  std::int64_t tokens(std::int64_t index) const;
  /// Epochs completed when window `index` begins, as a fraction.
  double epoch_at(std::int64_t index) const;
  /// Windows of a run of `epochs`, with a partial epoch rounded to whole windows; at least 1 if an
  /// epoch has any.
  std::int64_t windows_of_epochs(double epochs) const;
  /// The fewest windows that together hold `tokens`, or 0 if an epoch has no window. Throws a usage
  /// Error if `tokens_per_sample` is not stated.
  std::int64_t windows_of_tokens(std::int64_t tokens) const;
};

/// Splits a window into micro-batches of `micro` samples; the last one may be short. `micro` >= 1.
std::vector<Range> split(Range window, std::int64_t micro);

/// Splits the samples of `ranges` again: adjacent ranges as one, and no part across a gap.
std::vector<Range> split_again(std::span<const Range> ranges, std::int64_t micro);

/// Samples in a batch of `tokens` input tokens with a fixed context. Throws a usage Error that
/// names the nearest multiples if `tokens` is not a positive multiple of `context`.
std::int64_t samples_of_tokens(std::int64_t tokens, std::int64_t context);

/// The number of micro-batches of each of `world` ranks; the first ranks take the remainder.
std::vector<std::int64_t> micro_batches_per_rank(std::int64_t samples, std::int64_t micro,
                                                 std::int64_t world);

}  // namespace accrue::batch
