#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace accrue::batch {

enum class LastWindow { weighted, drop };

/// A half-open range of draw ordinals.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Which samples each optimizer step takes. Draw ordinals count epoch * N + position; a window
/// never crosses an epoch's end: the last one of an epoch is short (rightly weighted) or dropped.
struct WindowSchedule {
  std::int64_t samples_per_epoch = 0;   ///< N >= 1
  std::int64_t samples_per_window = 0;  ///< >= 1
  LastWindow last = LastWindow::weighted;

  std::int64_t windows_per_epoch() const;
  /// Ordinals of window `index` (0-based over the run). Empty only where an epoch has no window.
  Range window(std::int64_t index) const;
  /// Epochs done when window `index` begins, fractional.
  double epoch_at(std::int64_t index) const;
};

/// Splits a window into micro-batches of `micro` samples, the last one short. `micro` >= 1.
std::vector<Range> split(Range window, std::int64_t micro);

/// Samples in a batch of `tokens` input tokens with a fixed context. Throws a usage Error that
/// names both neighbouring multiples where `tokens` is not a positive multiple of `context`.
std::int64_t samples_of_tokens(std::int64_t tokens, std::int64_t context);

/// Micro-batches each of `world` ranks runs: ceil-balanced, the first ranks take the remainder.
std::vector<std::int64_t> micro_batches_per_rank(std::int64_t samples, std::int64_t micro,
                                                 std::int64_t world);

}  // namespace accrue::batch
