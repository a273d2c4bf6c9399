#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/observer.h"
#include "accrue/observe/progress_style.h"
#include "observe/curve.h"
#include "observe/terminal.h"

namespace accrue::observe {

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::lines;
  std::function<double()> clock;       ///< seconds, monotonic; empty: the system's
  std::function<TerminalSize()> size;  ///< for redrawn lines; empty: 80 x 24
  bool utf8 = false;                   ///< the terminal shows characters beyond ASCII
  bool colours = false;
};

/// Shows the progress of a run to people. The line before the first step and the micro-batches done
/// within it show that it moves, however long a step takes.
///
/// A bar's line fits the terminal's size when the line is drawn, so the terminal may be resized.
/// Parts that do not fit are left out, in this order: peak memory, the evaluation's loss,
/// micro-batches (shown for steps of 2 seconds and more), tokens a second, the bar, the time left,
/// the loss. The bar of an interrupted run is erased, and the next output begins on a new line.
///
/// A live view (live_view.h) is several such lines, below the ones that scroll: events and
/// evaluations are printed above it, and so stay in the terminal's history. Both are redrawn at
/// most ten times a second.
class ProgressSink : public Observer {
 public:
  /// `out` must outlive the sink.
  ProgressSink(std::ostream& out, ProgressOptions options);
  /// Makes a sink on stderr, which leaves stdout to results.
  explicit ProgressSink(std::optional<ProgressStyle> stated);

  void on_start(const RunStart& start) override;
  void on_micro_batch(std::int64_t done, std::int64_t total) override;
  void on_step(const StepReport& report) override;
  void on_evaluation(const Evaluation& evaluation) override;
  void on_event(const Event& event) override;
  void on_end(const RunEnd& end) override;

 private:
  /// One value of a step. Fields are shown in order; if a bar's line has no room for all, the last
  /// kind is removed first.
  struct Field {
    enum Kind { loss, time_left, bar, rate, micro_batches, evaluation, memory } kind;
    std::string text;  ///< with the spaces that separate it from the others
  };

  std::vector<Field> fields() const;
  static std::string in_words(const std::vector<Field>& fields);
  static std::vector<Field> fitted(std::vector<Field> fields, int columns);
  double share_of_step() const;
  std::optional<double> seconds_left() const;
  bool shows_micro_batches() const;
  std::string position(std::int64_t step) const;
  std::string rate() const;
  double share_of_run() const;
  std::string bar_line() const;
  std::vector<std::string> live_lines() const;
  bool step_line_is_due(double now) const;
  void redraw(bool always);
  void draw(const std::vector<std::string>& lines);
  void print_line(const std::string& text);

  std::ostream& out_;
  ProgressOptions options_;
  RunStart start_;
  std::optional<StepReport> last_;
  std::optional<double> eval_loss_;
  std::optional<double> samples_per_second_;
  Curve losses_;
  std::int64_t micro_done_ = 0;
  std::int64_t micro_total_ = 0;
  double started_ = 0;
  double step_began_ = 0;
  double last_output_ = 0;
  std::int64_t tenths_told_ = 0;
  std::size_t lines_drawn_ = 0;  ///< of the redrawn part; the cursor rests at the first
};

}  // namespace accrue::observe
