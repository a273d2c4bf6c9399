#include "observe/progress_line.h"

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>

#include "accrue/core/units.h"
#include "core/printable.h"
#include "core/printable_streams.h"
#include "observe/styled_text.h"

namespace accrue::observe {
namespace {

constexpr double seconds_of_silence = 1;
constexpr double seconds_between_redraws_of_a_line = 1;
constexpr double seconds_between_added_lines = 10;

/// Clears the line on which the cursor is.
constexpr const char* clear_line = "\r\x1b[K";

double seconds_on_a_monotonic_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string heading(const OperationProgress& progress) {
  return progress.part.empty() ? progress.name : progress.name + ": " + progress.part;
}

std::string count_in_words(const OperationProgress& progress, std::int64_t count) {
  return progress.in_words != nullptr ? progress.in_words(count) : std::to_string(count);
}

}  // namespace

ProgressLine::ProgressLine(std::ostream& out, ProgressLineOptions options)
    : out_(out), options_(std::move(options)) {
  if (!options_.clock) options_.clock = seconds_on_a_monotonic_clock;
  if (!options_.size) options_.size = [] { return TerminalSize{}; };
}

void ProgressLine::take(const OperationProgress& progress) {
  switch (progress.stage) {
    case OperationProgress::Stage::begun:
      return begin(progress);
    case OperationProgress::Stage::under_way:
      return go_on(progress);
    case OperationProgress::Stage::ended:
      return end(progress);
  }
}

void ProgressLine::begin(const OperationProgress& progress) {
  const double now = options_.clock();
  if (under_way_.empty()) {
    shown_.reset();
    next_ = now + seconds_of_silence;
  }
  under_way_.push_back({.progress = progress, .since = now});
  if (!progress.at_once) return tick();
  wipe();
  out_ << Unescaped{printable_line(heading(progress)) + "\n"};
  wait_from(now);
}

void ProgressLine::go_on(const OperationProgress& progress) {
  const auto found = std::ranges::find_if(
      under_way_, [&](const RunningOperation& one) { return one.progress.id == progress.id; });
  if (found == under_way_.end()) return;
  const double now = options_.clock();
  if (found->progress.all == 0 && progress.all > 0) {
    found->counted_since = now;
    found->done_then = progress.done;
  }
  const bool is_another_part = found->progress.part != progress.part;
  found->progress = progress;
  if (is_another_part && shown_) next_ = std::min(next_, *shown_ + seconds_of_silence);
  tick();
}

/// The line of an inner operation stays until the outer one is shown, so that nothing flickers.
void ProgressLine::end(const OperationProgress& progress) {
  std::erase_if(under_way_,
                [&](const RunningOperation& one) { return one.progress.id == progress.id; });
  if (under_way_.empty()) wipe();
}

void ProgressLine::tick() {
  if (under_way_.empty()) return;
  const double now = options_.clock();
  if (now < next_) return;
  wait_from(now);
  print(text(under_way_.back()));
}

void ProgressLine::wait_from(double now) {
  shown_ = now;
  next_ =
      now + (options_.redraws ? seconds_between_redraws_of_a_line : seconds_between_added_lines);
}

std::string ProgressLine::text(const RunningOperation& operation) const {
  const OperationProgress& progress = operation.progress;
  const double now = options_.clock();
  if (progress.all <= 0) return heading(progress) + "  " + format_duration(now - operation.since);
  const double share = static_cast<double>(progress.done) / static_cast<double>(progress.all);
  std::string text = heading(progress) + "  " + count_in_words(progress, progress.done) + " of " +
                     count_in_words(progress, progress.all) + " (" +
                     std::to_string(static_cast<int>(100 * share)) + "%)";
  const double seconds = now - operation.counted_since;
  if (seconds < seconds_of_silence) return text;  // too short for a rate
  const auto done = static_cast<double>(progress.done - operation.done_then);
  return text + "  " + count_in_words(progress, static_cast<std::int64_t>(done / seconds)) + "/s";
}

void ProgressLine::print(const std::string& text) {
  if (!options_.redraws) {
    out_ << Unescaped{printable_line(text) + "\n"};
    return;
  }
  StyledText line;
  line.add(text);
  line.cut_to(std::max(options_.size().columns - 1, 1));  // in the last column it would wrap
  out_ << Unescaped{clear_line + line.in_bytes(false)};
  is_drawn_ = true;
}

void ProgressLine::wipe() {
  if (is_drawn_) out_ << Unescaped{clear_line};
  is_drawn_ = false;
}

}  // namespace accrue::observe
