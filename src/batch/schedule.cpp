#include "accrue/batch/schedule.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "accrue/core/error.h"

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

std::int64_t WindowSchedule::windows_per_epoch() const {
  require(samples_per_epoch >= 1, "schedule windows", "at least one sample per epoch",
          samples_per_epoch, "more data or a shorter context");
  require(samples_per_window >= 1, "schedule windows", "at least one sample per window",
          samples_per_window, "a larger batch");
  return last == LastWindow::drop ? samples_per_epoch / samples_per_window
                                  : divide_rounding_up(samples_per_epoch, samples_per_window);
}

Range WindowSchedule::window(std::int64_t index) const {
  const std::int64_t per_epoch = windows_per_epoch();
  require(index >= 0, "schedule windows", "a window index of 0 or more", index, "counting from 0");
  if (per_epoch == 0) return {};
  const std::int64_t epoch_begin = index / per_epoch * samples_per_epoch;
  const std::int64_t offset = index % per_epoch * samples_per_window;
  const std::int64_t size = std::min(samples_per_window, samples_per_epoch - offset);
  return {epoch_begin + offset, epoch_begin + offset + size};
}

double WindowSchedule::epoch_at(std::int64_t index) const {
  return static_cast<double>(window(index).begin) / static_cast<double>(samples_per_epoch);
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
