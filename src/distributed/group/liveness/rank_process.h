#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace accrue::distributed {

/// The process of a rank, as other processes of its machine know it: by boot, process namespace,
/// number and start, so that a later process with the same number is not taken for it.
class RankProcess {
 public:
  /// This process.
  static RankProcess own();
  /// The process with this text(); no process if the text names none.
  explicit RankProcess(std::string text) : text_(std::move(text)) {}

  /// In one line; empty if the system does not provide it.
  const std::string& text() const { return text_; }

  /// Whether it is on this machine, runs this program, and is stopped by a signal (SIGSTOP), so
  /// that it does nothing until it is continued. A process held by a debugger is not.
  bool is_stopped() const;
  /// Ends it by SIGKILL, which also reaches a process that is stopped.
  void kill() const;

  bool operator==(const RankProcess&) const = default;

 private:
  std::string text_;
};

/// A process that has to end, and how long it may be stopped before it is killed.
struct PendingExit {
  RankProcess process;
  std::chrono::milliseconds patience;
};

/// Waits while any of these is stopped, and kills those that are stopped without a break for longer
/// than their patience: a launcher waits for every process that it started, and a stopped process
/// never ends. Returns at once if none is stopped.
void end_stopped(std::vector<PendingExit> processes);

}  // namespace accrue::distributed
