#include "cli/output/progress_on_stderr.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>

#include "core/helper_thread.h"
#include "observe/progress_line.h"
#include "observe/terminal.h"

namespace accrue::cli {
namespace {

/// A line that goes on while the operation does not report anything: a thread shows it as long as
/// one is under way. If the system starts no thread, the line is shown when something is reported.
class TickingLine {
 public:
  explicit TickingLine(bool redraws)
      : line_(std::cerr, {.redraws = redraws, .clock = {}, .size = [] {
                            return observe::terminal_size(STDERR_FILENO);
                          }}) {}
  ~TickingLine() { end_ticking(); }
  TickingLine(const TickingLine&) = delete;
  TickingLine& operator=(const TickingLine&) = delete;

  void take(const OperationProgress& progress) {
    if (take_locked(progress))
      begin_ticking();
    else
      end_ticking();
  }

 private:
  static constexpr std::chrono::milliseconds between_ticks{100};

  /// Returns whether an operation is under way.
  bool take_locked(const OperationProgress& progress) {
    const std::lock_guard lock(mutex_);
    line_.take(progress);
    return line_.is_under_way();
  }

  void begin_ticking() {
    if (ticker_.joinable()) return;
    is_over_ = false;
    ticker_ = start_thread([this] { tick_until_it_is_over(); });
  }

  void end_ticking() {
    if (!ticker_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    ticker_.join();
  }

  void tick_until_it_is_over() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, between_ticks, [this] { return is_over_; })) {
      try {
        line_.tick();
      } catch (const std::exception&) {
        // Memory for a line is short: the operation goes on without it.
      }
    }
  }

  std::mutex mutex_;  ///< guards `line_` and `is_over_`
  std::condition_variable changed_;
  observe::ProgressLine line_;
  bool is_over_ = false;
  std::thread ticker_;
};

}  // namespace

ShowProgress progress_on_stderr(std::optional<observe::ProgressStyle> stated) {
  const observe::ProgressStyle style = observe::choose_progress_style(stated, STDERR_FILENO);
  if (style == observe::ProgressStyle::off) return {};
  const bool redraws = style != observe::ProgressStyle::lines;
  return [line = std::make_shared<TickingLine>(redraws)](const OperationProgress& progress) {
    line->take(progress);
  };
}

}  // namespace accrue::cli
