#include "batch/variable_windows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::batch {
namespace {

void require_budget(std::int64_t budget, const char* key) {
  if (budget >= 1) return;
  throw usage_error(key, "a positive number", std::to_string(budget), "a larger batch");
}

void require_index(std::int64_t index, const char* of_what) {
  if (index >= 0) return;
  throw usage_error("schedule windows", std::string("a ") + of_what + " of 0 or more",
                    std::to_string(index), "counting from 0");
}

}  // namespace

struct VariableWindows::Epoch {
  std::vector<std::int64_t> ends;    ///< positions in the epoch after each window
  std::vector<std::int64_t> tokens;  ///< of each window

  std::int64_t begin(std::size_t window) const { return window == 0 ? 0 : ends[window - 1]; }
  Totals totals() const {
    Totals sum{.windows = static_cast<std::int64_t>(ends.size())};
    for (const std::int64_t count : tokens) sum.tokens += count;
    return sum;
  }
};

VariableWindows::VariableWindows(Sampler sampler, TokensOf tokens_of, WindowBudget budget,
                                 LastWindow last)
    : sampler_(sampler), tokens_of_(std::move(tokens_of)), budget_(budget), last_(last) {
  require_budget(budget_.tokens, "batch.tokens");
  require_budget(budget_.samples, "batch.samples");
  require_that_each_sample_fits();
}

void VariableWindows::require_that_each_sample_fits() const {
  std::int64_t longest = 0, longest_tokens = tokens_of_(0);
  for (std::int64_t sample = 1; sample < sampler_.size(); ++sample) {
    const std::int64_t tokens = tokens_of_(sample);
    if (tokens > longest_tokens) longest = sample, longest_tokens = tokens;
  }
  if (longest_tokens <= budget_.tokens) return;
  throw usage_error("batch.tokens",
                    "at least the longest sample's " + std::to_string(longest_tokens) +
                        " tokens (sample " + std::to_string(longest) + ")",
                    std::to_string(budget_.tokens), "a larger batch or shorter samples");
}

std::int64_t VariableWindows::windows_in_epoch(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(epoch(number)->ends.size());
}

std::int64_t VariableWindows::tokens_in_epoch(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  return epoch(number)->totals().tokens;
}

std::int64_t VariableWindows::windows_before_epoch(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  return before(number).windows;
}

Range VariableWindows::window(std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(index);
  if (!place.windows) return {};
  const std::int64_t epoch_begin = place.epoch * sampler_.size();
  return {epoch_begin + place.windows->begin(place.index),
          epoch_begin + place.windows->ends[place.index]};
}

std::int64_t VariableWindows::tokens(std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(index);
  return place.windows ? place.windows->tokens[place.index] : 0;
}

std::int64_t VariableWindows::windows_of_tokens(std::int64_t tokens) const {
  const std::lock_guard lock(mutex_);
  if (epoch(0)->ends.empty() || tokens <= 0) return 0;
  std::int64_t number = 0;
  while (before(number + 1).tokens < tokens) ++number;
  const Totals done = before(number);
  const std::shared_ptr<const Epoch> last = epoch(number);
  std::int64_t windows = done.windows, sum = done.tokens;
  for (std::size_t i = 0; sum < tokens; ++i, ++windows) sum += last->tokens[i];
  return windows;
}

// Whether an epoch has a window depends only on its totals, so either all have one or none has.
VariableWindows::Place VariableWindows::place_of(std::int64_t index) const {
  require_index(index, "window index");
  if (epoch(0)->ends.empty()) return {};
  while (totals_.back().windows <= index) before(std::ssize(totals_));
  const auto behind =
      std::upper_bound(totals_.begin(), totals_.end(), index,
                       [](std::int64_t value, const Totals& t) { return value < t.windows; });
  const std::int64_t number = behind - totals_.begin() - 1;
  const std::int64_t first = totals_[static_cast<std::size_t>(number)].windows;
  return {number, epoch(number), static_cast<std::size_t>(index - first)};
}

VariableWindows::Totals VariableWindows::before(std::int64_t number) const {
  require_index(number, "number of epochs");
  while (std::ssize(totals_) <= number) {
    const Totals of_epoch = epoch(std::ssize(totals_) - 1)->totals();
    totals_.push_back(
        {totals_.back().windows + of_epoch.windows, totals_.back().tokens + of_epoch.tokens});
  }
  return totals_[static_cast<std::size_t>(number)];
}

std::shared_ptr<const VariableWindows::Epoch> VariableWindows::epoch(std::int64_t number) const {
  require_index(number, "number of an epoch");
  if (sampler_.repeats_epochs()) number = 0;
  if (cached_[0].number != number) {
    std::swap(cached_[0], cached_[1]);
    if (cached_[0].number != number) cached_[0] = {number, walk(number)};
  }
  return cached_[0].epoch;
}

std::shared_ptr<const VariableWindows::Epoch> VariableWindows::walk(std::int64_t number) const {
  auto windows = std::make_shared<Epoch>();
  const std::int64_t begin = number * sampler_.size();
  std::int64_t samples = 0, tokens = 0;
  const auto close = [&](std::int64_t position) {
    windows->ends.push_back(position);
    windows->tokens.push_back(tokens);
    samples = tokens = 0;
  };
  for (std::int64_t position = 0; position < sampler_.size(); ++position) {
    const std::int64_t more = tokens_of_(sampler_.sample(begin + position));
    if (samples == budget_.samples || more > budget_.tokens - tokens) close(position);
    ++samples;
    tokens += more;
  }
  const bool is_full = samples == budget_.samples || tokens == budget_.tokens;
  if (is_full || last_ == LastWindow::weighted) close(sampler_.size());
  return windows;
}

WindowSchedule variable_window_schedule(const Sampler& sampler, VariableWindows::TokensOf tokens_of,
                                        WindowBudget budget, LastWindow last) {
  auto windows =
      std::make_shared<const VariableWindows>(sampler, std::move(tokens_of), budget, last);
  const bool is_by_samples = budget.tokens == WindowBudget{}.tokens;
  const std::int64_t mean =
      sampler.size() / std::max<std::int64_t>(1, windows->windows_in_epoch(0));
  return {.samples_per_epoch = sampler.size(),
          .samples_per_window = is_by_samples ? budget.samples : mean,
          .last = last,
          .variable = std::move(windows)};
}

}  // namespace accrue::batch
