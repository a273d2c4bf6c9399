#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/long_operation.h"
#include "observe/terminal.h"

namespace accrue::observe {

struct ProgressLineOptions {
  bool redraws = false;                     ///< one line is redrawn; otherwise lines are added
  std::function<double()> clock = {};       ///< seconds, monotonic; empty: the system's
  std::function<TerminalSize()> size = {};  ///< for what is redrawn; empty: 80 x 24
};

/// Shows operations that take longer than a second. The first line comes when one has gone on for a
/// second. Then a line is redrawn once a second; lines are added every ten seconds, and at most one
/// a second when the operation goes on with another part. The innermost operation is shown. When
/// the outermost has ended, a redrawn line is wiped.
///
/// An operation that is shown at once leaves a line with its name, whatever it takes.
///
/// Its output is Unescaped, which behind PrintableStreams uses nothing of the stream but its
/// buffer: another thread may write to std::cerr meanwhile.
class ProgressLine {
 public:
  /// `out` must outlive the line.
  ProgressLine(std::ostream& out, ProgressLineOptions options);

  void take(const OperationProgress& progress);
  /// Shows what has gone on for long, if it is time for that: to be called several times a second.
  void tick();
  bool is_under_way() const { return !under_way_.empty(); }

 private:
  struct RunningOperation {
    OperationProgress progress;
    double since = 0;            ///< when it began
    std::int64_t done_then = 0;  ///< the first count
    double counted_since = 0;    ///< when that was reported
  };

  void begin(const OperationProgress& progress);
  void go_on(const OperationProgress& progress);
  void end(const OperationProgress& progress);
  std::string text(const RunningOperation& operation) const;
  void print(const std::string& text);
  void wipe();
  /// A line is shown `now`: the next one is due later.
  void wait_from(double now);

  std::ostream& out_;
  ProgressLineOptions options_;
  std::vector<RunningOperation> under_way_;  ///< the innermost last
  double next_ = 0;                          ///< when a line is due
  std::optional<double> shown_;              ///< when the last line was shown of what is under way
  bool is_drawn_ = false;                    ///< a line that is redrawn stands on the terminal
};

}  // namespace accrue::observe
