#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "observe/progress_sink.h"

/// The base of the tests of a run's progress on a terminal: a sink with a clock and size that tests
/// change, steps to report to it, and a terminal that stores the visible text.
namespace accrue::observe {

/// A sink that writes into a string, with a clock and a width that the test changes.
class Stage {
 public:
  explicit Stage(ProgressStyle style)
      : sink(out, {.style = style,
                   .clock = [this] { return now; },
                   .size = [this] { return TerminalSize{.columns = width, .rows = rows}; }}) {}

  std::string taken() {
    std::string text = out.str();
    out.str("");
    return text;
  }

  double now = 100;
  int width = 100;
  int rows = 24;
  std::ostringstream out;
  ProgressSink sink;
};

/// A step without measurements.
inline StepReport bare_step(std::int64_t number) {
  StepReport report;
  report.step = number;
  return report;
}

inline StepReport step(std::int64_t number) {
  StepReport report = bare_step(number);
  report.loss = 2.5;
  report.tokens_per_second = 12'345;
  report.peak_bytes = std::int64_t{512} << 20;
  return report;
}

inline const RunStart start{
    .first_step = 0, .total_steps = 200, .parameters = 10, .summary = "gpt2, 10"};

/// A terminal that wraps its lines again when it is resized, as most do.
class Screen {
 public:
  int width = 80;

  void write(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        offset_ -= offset_ % columns();
      } else if (text[i] == '\n') {
        if (++line_ == lines_.size()) lines_.emplace_back();
        offset_ = 0;
      } else if (text[i] == '\x1b' && std::isdigit(text[i + 2]) != 0) {
        i = moved(text, i);
      } else if (text.compare(i, 3, "\x1b[J") == 0) {
        lines_.resize(line_ + 1);
        lines_[line_].resize(offset_);
        i += 2;
      } else if (text.compare(i, 3, "\x1b[K") == 0) {
        const std::size_t row_end = offset_ - offset_ % columns() + columns();
        if (row_end >= lines_[line_].size())
          lines_[line_].resize(std::min(offset_, lines_[line_].size()));
        for (std::size_t at = offset_; at < std::min(row_end, lines_[line_].size()); ++at)
          lines_[line_][at] = ' ';
        i += 2;
      } else {
        lines_[line_].resize(std::max(lines_[line_].size(), offset_ + 1), ' ');
        lines_[line_][offset_++] = text[i];
      }
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::size_t columns() const { return static_cast<std::size_t>(width); }
  /// Applies "\x1b[3A" (up) or "\x1b[3B" (down) at `i`; returns the end of it.
  std::size_t moved(const std::string& text, std::size_t i) {
    std::size_t digits = 0;
    const std::size_t lines = std::stoul(text.substr(i + 2), &digits);
    line_ = text[i + 2 + digits] == 'A' ? line_ - lines : line_ + lines;
    return i + 2 + digits;
  }
  std::vector<std::string> lines_{""};
  std::size_t line_ = 0, offset_ = 0;
};

}  // namespace accrue::observe
