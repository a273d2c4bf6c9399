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

/// Where a window begins.
struct WindowPlace {
  std::int64_t index = 0;   ///< the window's, counted over the run
  std::int64_t begin = 0;   ///< its first draw
  std::int64_t tokens = 0;  ///< of all windows before it; 0 if samples have none
};

/// The windows of a batch that changes during the run. Each is as long as its own budget allows,
/// ends with the epoch, and follows the one before it. If a window lies depends on all before
/// it, so windows are walked once, from the first, and their places kept (32 bytes each). The same
/// on every machine, and at whichever window a run starts. Safe from several threads.
class ChangingWindows {
 public:
  /// What is drawn from.
  struct Draws {
    std::int64_t samples_per_epoch = 0;  ///< >= 1
    /// Input tokens of a draw (an ordinal): pure, >= 0. Null if samples have no tokens.
    std::function<std::int64_t(std::int64_t ordinal)> tokens_of = nullptr;
    /// Set where all samples have as many, so that nothing is looked up; 0 without tokens.
    std::optional<std::int64_t> tokens_per_sample = {};
    LastWindow last = LastWindow::weighted;
  };
  /// The budget of the window that begins there: pure, at least 1 of each kind.
  using BudgetOf = std::function<WindowBudget(const WindowPlace&)>;

  ChangingWindows(Draws draws, BudgetOf budget_of);

  /// The same windows before `index`; from it on each has `budget`. `index` >= 0.
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
  /// Windows that begin before `epochs` are through, at least 1.
  std::int64_t windows_of_epochs(double epochs) const;
  /// The fewest windows that hold `tokens` together. A usage Error if samples have none.
  std::int64_t windows_of_tokens(std::int64_t tokens) const;

 private:
  struct Window {
    std::int64_t begin = 0, end = 0;
    std::int64_t tokens_before = 0, tokens = 0;
  };

  /// These expect the mutex to be held.
  const Window& at(std::int64_t index) const;
  Window next() const;
  Window fill(const WindowPlace& place, const WindowBudget& budget) const;
  template <typename Holds>
  std::int64_t first_where(const Holds& holds) const;

  Draws draws_;
  BudgetOf budget_of_;
  mutable std::mutex mutex_;             ///< guards `windows_`
  mutable std::vector<Window> windows_;  ///< as far as they were asked for
};

}  // namespace accrue::batch
