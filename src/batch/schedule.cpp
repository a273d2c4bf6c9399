#include "batch/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "accrue/core/error.h"
#include "batch/changing_windows.h"
#include "batch/variable_windows.h"

namespace accrue::batch {
namespace {

void require(bool holds, std::string_view operation, std::string_view expected,
             std::int64_t received, std::string_view suggestion) {
  if (!holds) throw usage_error(operation, expected, std::to_string(received), suggestion);
}

// Written so that values near the largest integer do not overflow.
std::int64_t divide_rounding_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

std::string multiple_with_samples(std::int64_t samples, std::int64_t context) {
  return std::to_string(samples * context) + " (" + std::to_string(samples) +
         (samples == 1 ? " sample)" : " samples)");
}

std::string neighbouring_multiples(std::int64_t tokens, std::int64_t context) {
  const std::int64_t below = tokens < context ? 0 : tokens / context;
  if (below == 0) return multiple_with_samples(1, context);
  const bool has_above = below < std::numeric_limits<std::int64_t>::max() / context;
  return multiple_with_samples(below, context) +
         (has_above ? " or " + multiple_with_samples(below + 1, context) : "");
}

}  // namespace

std::int64_t WindowSchedule::windows_per_epoch() const { return windows_in_epoch(0); }

std::int64_t WindowSchedule::windows_in_epoch(std::int64_t epoch) const {
  if (changing) return changing->windows_in_epoch(epoch);
  if (variable) return variable->windows_in_epoch(epoch);
  require(samples_per_epoch >= 1, "schedule windows", "at least one sample per epoch",
          samples_per_epoch, "more data or a shorter context");
  require(samples_per_window >= 1, "schedule windows", "at least one sample per window",
          samples_per_window, "a larger batch");
  return last == LastWindow::drop ? samples_per_epoch / samples_per_window
                                  : divide_rounding_up(samples_per_epoch, samples_per_window);
}

Range WindowSchedule::window(std::int64_t index) const {
  if (changing) return changing->window(index);
  if (variable) return variable->window(index);
  const std::int64_t per_epoch = windows_per_epoch();
  require(index >= 0, "schedule windows", "a window index of 0 or more", index, "counting from 0");
  if (per_epoch == 0) return {};
  const std::int64_t epoch_begin = index / per_epoch * samples_per_epoch;
  const std::int64_t offset = index % per_epoch * samples_per_window;
  const std::int64_t size = std::min(samples_per_window, samples_per_epoch - offset);
  return {epoch_begin + offset, epoch_begin + offset + size};
}

std::int64_t WindowSchedule::tokens(std::int64_t index) const {
  if (changing) return changing->tokens(index);
  return variable ? variable->tokens(index) : window(index).size() * tokens_per_sample;
}

double WindowSchedule::epoch_at(std::int64_t index) const {
  return static_cast<double>(window(index).begin) / static_cast<double>(samples_per_epoch);
}

std::int64_t WindowSchedule::windows_of_epochs(double epochs) const {
  if (changing) return changing->windows_of_epochs(epochs);
  const std::int64_t first = windows_per_epoch();
  if (first == 0) return 0;
  const double whole = variable ? std::floor(epochs) : 0;
  const auto done = static_cast<std::int64_t>(whole);
  const std::int64_t windows_done = variable ? variable->windows_before_epoch(done) : 0;
  const double rest = (epochs - whole) * static_cast<double>(windows_in_epoch(done));
  return std::max<std::int64_t>(1, windows_done + std::llround(rest));
}

std::int64_t WindowSchedule::windows_of_tokens(std::int64_t tokens) const {
  if (changing) return changing->windows_of_tokens(tokens);
  if (variable) return variable->windows_of_tokens(tokens);
  require(tokens_per_sample >= 1, "schedule windows", "the tokens of a sample", tokens_per_sample,
          "a run of steps or epochs");
  const std::int64_t per_epoch = windows_per_epoch();
  if (per_epoch == 0) return 0;
  const std::int64_t window_tokens = tokens_per_sample * samples_per_window;
  const std::int64_t epoch_tokens =
      last == LastWindow::drop ? per_epoch * window_tokens : tokens_per_sample * samples_per_epoch;
  const std::int64_t rest = divide_rounding_up(tokens % epoch_tokens, window_tokens);
  return tokens / epoch_tokens * per_epoch + std::min(per_epoch, rest);
}

std::vector<Range> split(Range window, std::int64_t micro) {
  require(micro >= 1, "split a window", "at least one sample per micro-batch", micro,
          "a larger batch.micro");
  std::vector<Range> parts;
  while (window.size() > 0) {
    const std::int64_t size = std::min(micro, window.size());
    parts.push_back({window.begin, window.begin + size});
    window.begin += size;
  }
  return parts;
}

std::vector<Range> split_again(std::span<const Range> ranges, std::int64_t micro) {
  std::vector<Range> parts;
  for (std::size_t i = 0; i < ranges.size();) {
    Range whole = ranges[i];
    for (++i; i < ranges.size() && ranges[i].begin == whole.end; ++i) whole.end = ranges[i].end;
    for (const Range& part : split(whole, micro)) parts.push_back(part);
  }
  return parts;
}

std::int64_t samples_of_tokens(std::int64_t tokens, std::int64_t context) {
  require(context >= 1, "model.context", "at least one token", context, "a positive context");
  require(tokens >= 1 && tokens % context == 0, "batch.tokens",
          "a positive multiple of the context of " + std::to_string(context) + " tokens", tokens,
          neighbouring_multiples(tokens, context));
  return tokens / context;
}

std::vector<std::int64_t> micro_batches_per_rank(std::int64_t samples, std::int64_t micro,
                                                 std::int64_t world) {
  require(samples >= 0, "share micro-batches", "no negative number of samples", samples,
          "a window of the schedule");
  require(micro >= 1, "share micro-batches", "at least one sample per micro-batch", micro,
          "a larger batch.micro");
  require(world >= 1, "share micro-batches", "at least one rank", world, "a world of one");
  const std::int64_t total = divide_rounding_up(samples, micro);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(world), total / world);
  std::for_each_n(counts.begin(), total % world, [](std::int64_t& count) { ++count; });
  return counts;
}

}  // namespace accrue::batch
