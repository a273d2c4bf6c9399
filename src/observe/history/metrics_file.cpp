#include "observe/history/metrics_file.h"

#include <algorithm>
#include <string_view>

#include "core/words.h"
#include "observe/history/line_file.h"
#include "observe/history/metrics_line.h"
#include "observe/history/step_rows.h"

namespace accrue::observe {
namespace {

/// Takes the lines of a file one after the other, and records those that do not fit.
class MetricsReader {
 public:
  void read(LineFile& file) {
    while (const auto line = file.next()) {
      ++line_number_;
      is_last_torn_ = !take(line->text) && !line->is_whole;
    }
    if (file.has_failed()) say("it cannot be read to its end");
  }

  Metrics finish() {
    say_what_was_left_out();
    metrics_.table = rows_.take();
    return std::move(metrics_);
  }

 private:
  /// False if the line is not of a known kind.
  bool take(std::string_view text) {
    if (text.empty()) return true;
    switch (line_.read(text, rows_)) {
      case MetricsLine::Kind::step:
        take_step();
        return true;
      case MetricsLine::Kind::evaluation:
        forget_evaluations(line_.step());
        metrics_.evaluations.push_back(
            {line_.step(), line_.time(), line_.eval_loss(), line_.eval_accuracy()});
        return true;
      case MetricsLine::Kind::event:
        metrics_.events.push_back({line_.step(), line_.time(), line_.event(), line_.reason()});
        return true;
      case MetricsLine::Kind::unknown:
        break;
    }
    if (unknown_lines_++ == 0) first_unknown_ = line_number_;
    return false;
  }

  void take_step() {
    // A window in which nothing counted comes after the step that it did not advance.
    if (rows_.adds_nothing_to(line_.step(), "loss")) return;
    const std::size_t gone = rows_.keep_row(line_.step());
    if (gone == 0) return;
    forget_evaluations(line_.step());
    if (steps_taken_again_ == 0) first_return_ = {line_.step(), line_number_};
    steps_taken_again_ += static_cast<std::int64_t>(gone);
  }

  /// Drops those of `step` and later.
  void forget_evaluations(std::int64_t step) {
    while (!metrics_.evaluations.empty() && metrics_.evaluations.back().step >= step)
      metrics_.evaluations.pop_back();
  }

  void say_what_was_left_out() {
    const std::int64_t unknown = unknown_lines_ - (is_last_torn_ ? 1 : 0);
    if (unknown > 0)
      say(counted(unknown, "line") +
          " left out that this version does not know, the first at line " +
          std::to_string(first_unknown_));
    if (is_last_torn_) say("the last line is half-written and left out");
    if (steps_taken_again_ > 0)
      say(counted(steps_taken_again_, "step") + " left out that the run took again, the first at " +
          "line " + std::to_string(first_return_.line) + ", where it goes back to step " +
          std::to_string(first_return_.step));
    if (rows_.is_full())
      say("only the first " + std::to_string(StepRows::most_columns) +
          " kinds of numbers are kept");
  }

  void say(const std::string& what) { metrics_.remarks.push_back("metrics.jsonl: " + what); }

  struct Return {
    std::int64_t step = 0, line = 0;
  };

  MetricsLine line_;
  StepRows rows_;
  Metrics metrics_;
  std::int64_t line_number_ = 0;
  std::int64_t unknown_lines_ = 0, first_unknown_ = 0;
  std::int64_t steps_taken_again_ = 0;
  Return first_return_;
  bool is_last_torn_ = false;
};

}  // namespace

Metrics read_metrics(const std::filesystem::path& file) {
  MetricsReader reader;
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error)) {
    LineFile lines(file, MetricsLine::padding);
    reader.read(lines);
  }
  return reader.finish();
}

}  // namespace accrue::observe
