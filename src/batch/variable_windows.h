#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "batch/sampler.h"
#include "batch/schedule.h"
#include "batch/window_budget.h"

namespace accrue::batch {

/// The windows of samples that differ in length. Windows are as long as the budget allows, follow
/// each other without gaps, and end with the epoch. Their places in an epoch depend on its order,
/// so an epoch is walked once (N draws) when a window of it or of a later epoch is requested. Only
/// the numbers of windows and tokens of earlier epochs are kept, and all places of the last two
/// requested. Windows are the same on every machine, and for every window at which a run starts.
/// Thread-safe.
class VariableWindows {
 public:
  /// Input tokens of a sample in [0, sampler.size()): pure, >= 0.
  using TokensOf = std::function<std::int64_t(std::int64_t sample)>;

  /// With LastWindow::drop an epoch's last window is left out unless it fills a budget exactly.
  /// Throws a usage Error if a single sample exceeds budget.tokens, or if a budget is below 1.
  VariableWindows(Sampler sampler, TokensOf tokens_of, WindowBudget budget, LastWindow last);

  std::int64_t windows_in_epoch(std::int64_t epoch) const;
  std::int64_t tokens_in_epoch(std::int64_t epoch) const;  ///< in the epoch's windows
  std::int64_t windows_before_epoch(std::int64_t epoch) const;
  /// Ordinals of window `index` (0-based over the run), and their tokens. Empty only if no epoch
  /// has a window.
  Range window(std::int64_t index) const;
  std::int64_t tokens(std::int64_t index) const;
  /// The fewest windows that together hold `tokens`; 0 if no epoch has a window.
  std::int64_t windows_of_tokens(std::int64_t tokens) const;

 private:
  struct Epoch;
  struct Totals {
    std::int64_t windows = 0;
    std::int64_t tokens = 0;
  };
  struct Place {
    std::int64_t epoch = 0;
    std::shared_ptr<const Epoch> windows;
    std::size_t index = 0;  ///< in the epoch
  };

  /// These two require the mutex to be held.
  Place place_of(std::int64_t index) const;
  std::shared_ptr<const Epoch> epoch(std::int64_t number) const;
  std::shared_ptr<const Epoch> walk(std::int64_t number) const;
  /// Totals of all epochs before `epoch`.
  Totals before(std::int64_t epoch) const;
  void require_that_each_sample_fits() const;

  Sampler sampler_;
  TokensOf tokens_of_;
  WindowBudget budget_;
  LastWindow last_;

  struct Cached {
    std::int64_t number = -1;
    std::shared_ptr<const Epoch> epoch;
  };
  mutable std::mutex mutex_;  ///< guards all members below
  mutable std::array<Cached, 2> cached_;
  mutable std::vector<Totals> totals_{{}};  ///< [e]: the totals of all epochs before e
};

/// A schedule of samples that differ in length.
WindowSchedule variable_window_schedule(const Sampler& sampler, VariableWindows::TokensOf tokens_of,
                                        WindowBudget budget,
                                        LastWindow last = LastWindow::weighted);

}  // namespace accrue::batch
