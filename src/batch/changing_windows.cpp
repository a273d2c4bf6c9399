#include "batch/changing_windows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::batch {
namespace {

bool is_full(const WindowBudget& budget, std::int64_t samples, std::int64_t tokens) {
  return samples == budget.samples || tokens == budget.tokens;
}

[[noreturn]] void refuse_sample(std::int64_t tokens, std::int64_t budget) {
  throw usage_error("batch schedule",
                    "a batch of at least a sample's " + std::to_string(tokens) + " tokens",
                    std::to_string(budget), "a larger batch or shorter samples");
}

}  // namespace

ChangingWindows::ChangingWindows(Draws draws, BudgetOf budget_of)
    : draws_(std::move(draws)), budget_of_(std::move(budget_of)) {
  if (draws_.samples_per_epoch < 1)
    throw usage_error("schedule windows", "at least one sample per epoch",
                      std::to_string(draws_.samples_per_epoch), "more data");
}

std::shared_ptr<const ChangingWindows> ChangingWindows::changed_from(std::int64_t index,
                                                                     WindowBudget budget) const {
  auto changed = std::make_shared<ChangingWindows>(
      draws_, [index, budget, before = budget_of_](const WindowPlace& place) {
        return place.index < index ? before(place) : budget;
      });
  const std::lock_guard lock(mutex_);
  const std::int64_t known = std::min(index, std::ssize(windows_));
  changed->windows_.assign(windows_.begin(), windows_.begin() + known);
  return changed;
}

Range ChangingWindows::window(std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  const Window& window = at(index);
  return {window.begin, window.end};
}

std::int64_t ChangingWindows::tokens(std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  return at(index).tokens;
}

WindowPlace ChangingWindows::place(std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  const Window& window = at(index);
  return {.index = index, .begin = window.begin, .tokens = window.tokens_before};
}

std::int64_t ChangingWindows::windows_in_epoch(std::int64_t epoch) const {
  const std::int64_t begin = epoch * draws_.samples_per_epoch;
  const std::int64_t end = begin + draws_.samples_per_epoch;
  const std::lock_guard lock(mutex_);
  const auto first_from = [this](std::int64_t draw) {
    return first_where([draw](const Window& window) { return window.begin >= draw; });
  };
  return first_from(end) - first_from(begin);
}

std::int64_t ChangingWindows::windows_of_epochs(double epochs) const {
  const auto end = static_cast<std::int64_t>(
      std::llround(epochs * static_cast<double>(draws_.samples_per_epoch)));
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(
      1, first_where([end](const Window& window) { return window.begin >= end; }));
}

std::int64_t ChangingWindows::windows_of_tokens(std::int64_t tokens) const {
  if (!counts_tokens())
    throw usage_error("schedule windows", "samples with tokens", "none",
                      "a run of steps or epochs");
  if (tokens <= 0) return 0;
  const std::lock_guard lock(mutex_);
  return 1 + first_where([tokens](const Window& window) {
           return window.tokens_before + window.tokens >= tokens;
         });
}

/// The first window for which `holds` is true; it is true for all later ones, too.
template <typename Holds>
std::int64_t ChangingWindows::first_where(const Holds& holds) const {
  while (!holds(at(std::max<std::int64_t>(0, std::ssize(windows_) - 1))))
    windows_.push_back(next());
  return std::ranges::partition_point(windows_, [&](const Window& w) { return !holds(w); }) -
         windows_.begin();
}

const ChangingWindows::Window& ChangingWindows::at(std::int64_t index) const {
  if (index < 0)
    throw usage_error("schedule windows", "a window index of 0 or more", std::to_string(index),
                      "counting from 0");
  while (std::ssize(windows_) <= index) windows_.push_back(next());
  return windows_[static_cast<std::size_t>(index)];
}

/// The window after the known ones.
ChangingWindows::Window ChangingWindows::next() const {
  WindowPlace place{.index = std::ssize(windows_)};
  if (!windows_.empty()) {
    place.begin = windows_.back().end;
    place.tokens = windows_.back().tokens_before + windows_.back().tokens;
  }
  for (int tries = 0; tries < 2; ++tries) {
    const WindowBudget budget = budget_of_(place);
    const Window window = fill(place, budget);
    const bool is_whole = is_full(budget, window.end - window.begin, window.tokens) ||
                          window.end % draws_.samples_per_epoch != 0;
    if (is_whole || draws_.last == LastWindow::weighted) return window;
    place.begin = window.end;
  }
  throw usage_error("batch.last",
                    "at least one whole batch in an epoch of " +
                        std::to_string(draws_.samples_per_epoch) + " samples",
                    "a larger batch and last = \"drop\"",
                    "last = \"weighted\", a smaller batch or more data");
}

ChangingWindows::Window ChangingWindows::fill(const WindowPlace& place,
                                              const WindowBudget& budget) const {
  Window window{.begin = place.begin, .end = place.begin, .tokens_before = place.tokens};
  const std::int64_t left = draws_.samples_per_epoch - place.begin % draws_.samples_per_epoch;
  const std::int64_t most = std::min(left, budget.samples);
  if (draws_.tokens_per_sample) {
    const std::int64_t each = *draws_.tokens_per_sample;
    const std::int64_t samples = each == 0 ? most : std::min(most, budget.tokens / each);
    if (samples < 1) refuse_sample(each, budget.tokens);
    window.end += samples;
    window.tokens = samples * each;
    return window;
  }
  while (window.end - window.begin < most) {
    const std::int64_t more = draws_.tokens_of(window.end);
    if (more > budget.tokens - window.tokens) break;
    window.tokens += more;
    ++window.end;
  }
  if (window.end == window.begin) refuse_sample(draws_.tokens_of(window.end), budget.tokens);
  return window;
}

}  // namespace accrue::batch
