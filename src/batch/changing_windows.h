#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "accrue/batch/order.h"
#include "batch/schedule.h"
#include "batch/window_budget.h"

namespace accrue::batch {

/// The place at which a window begins.
struct WindowPlace {
  std::int64_t index = 0;   ///< index of the window over the run
  std::int64_t begin = 0;   ///< its first draw
  std::int64_t tokens = 0;  ///< of all earlier windows; 0 if samples have none
};

/// The windows of a batch that changes during the run. Each is as long as its own budget allows,
/// ends with the epoch, and follows the previous one. The place of a window depends on all earlier
/// ones, so windows are walked once, from the first, and their places are kept (32 bytes each).
/// They are the same on every machine, and for every window at which a run starts. Thread-safe.
class ChangingWindows {
 public:
  /// The source of the draws.
  struct Draws {
    std::int64_t samples_per_epoch = 0;  ///< >= 1
    /// Input tokens of a draw (an ordinal): pure, >= 0. Null if samples have no tokens.
    std::function<std::int64_t(std::int64_t ordinal)> tokens_of = nullptr;
    /// Set if all samples have the same number, so that no lookup is needed; 0 without tokens.
    std::optional<std::int64_t> tokens_per_sample = {};
    LastWindow last = LastWindow::weighted;
  };
  /// The budget of the window that begins at a place: pure, at least 1 of each kind.
  using BudgetOf = std::function<WindowBudget(const WindowPlace&)>;

  ChangingWindows(Draws draws, BudgetOf budget_of);

  /// The same windows before `index`; later ones have `budget`. `index` >= 0.
  std::shared_ptr<const ChangingWindows> changed_from(std::int64_t index,
                                                      WindowBudget budget) const;

  /// Whether samples have tokens.
  bool counts_tokens() const { return draws_.tokens_of || draws_.tokens_per_sample != 0; }

  /// These throw a usage Error if a window's first sample alone exceeds its budget, or, with
  /// LastWindow::drop, an epoch holds no whole window.
  Range window(std::int64_t index) const;
  std::int64_t tokens(std::int64_t index) const;
  WindowPlace place(std::int64_t index) const;
  std::int64_t windows_in_epoch(std::int64_t epoch) const;
  /// Windows that begin before the end of `epochs`, at least 1.
  std::int64_t windows_of_epochs(double epochs) const;
  /// The fewest windows that together hold `tokens`. A usage Error if samples have none.
  std::int64_t windows_of_tokens(std::int64_t tokens) const;

 private:
  struct Window {
    std::int64_t begin = 0, end = 0;
    std::int64_t tokens_before = 0, tokens = 0;
  };

  /// These require the mutex to be held.
  const Window& at(std::int64_t index) const;
  Window next() const;
  Window fill(const WindowPlace& place, const WindowBudget& budget) const;
  template <typename Holds>
  std::int64_t first_where(const Holds& holds) const;

  Draws draws_;
  BudgetOf budget_of_;
  mutable std::mutex mutex_;             ///< guards `windows_`
  mutable std::vector<Window> windows_;  ///< as far as requested
};

}  // namespace accrue::batch
