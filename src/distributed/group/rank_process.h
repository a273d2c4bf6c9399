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
  /// One that text() of it names; no process if it names none.
  explicit RankProcess(std::string text) : text_(std::move(text)) {}

  /// In one line; empty if the system does not tell.
  const std::string& text() const { return text_; }

  /// Whether it is on this machine, runs this program, and is stopped by a signal (SIGSTOP), so
  /// that it does nothing until somebody continues it. One that a debugger holds is not.
  bool is_stopped() const;
  /// Ends it by SIGKILL, which also reaches a process that is stopped.
  void kill() const;

  bool operator==(const RankProcess&) const = default;

 private:
  std::string text_;
};

/// A process that is to end, and for how long it may be stopped before it is ended.
struct Awaited {
  RankProcess process;
  std::chrono::milliseconds patience;
};

/// Waits while any of these is stopped, and ends those that are stopped for longer than their
/// patience without a break: a launcher waits for all that it started, and a process that is
/// stopped never ends. Returns at once if none is stopped.
void end_stopped(std::vector<Awaited> processes);

}  // namespace accrue::distributed
