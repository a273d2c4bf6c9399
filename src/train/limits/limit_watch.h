#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accrue/core/clock.h"
#include "train/limits/limit_command.h"
#include "train/limits/limit_state.h"

namespace accrue::train {

/// The limits of a process while it trains. Reads files and starts commands from the thread that
/// asks it, which waits for neither.
class LimitWatch {
 public:
  LimitWatch() = default;  ///< without limits
  /// Reads all of them, which takes as long as the slowest command, LimitCommand::kSeconds at most.
  /// Throws a usage Error if there is nothing to read. `clock` gives seconds, the system's where
  /// it is empty.
  explicit LimitWatch(const std::vector<Limit>& limits, std::function<double()> clock = {});

  bool is_empty() const { return watched_.empty(); }

  /// Reads those whose time it is. Returns what changed, with the reasons, for people. To be asked
  /// between micro-batches, as often as one likes.
  std::vector<std::string> follow();

  /// The part of the time that this process may work: 1, less where it is to be slow, 0 if it is
  /// to pause.
  double allowed_speed() const;
  /// Whether a limit asked the run to stop.
  bool asks_to_stop() const { return asks_to_stop_; }
  /// Whether a limit asked for a checkpoint since this was asked last.
  bool take_notice();

 private:
  struct Watched {
    explicit Watched(const Limit& stated);

    Limit limit;
    std::unique_ptr<LimitCommand> command;  ///< null: the limit is told by a file
    LimitState state;
    double due = 0;  ///< when it is to be read again
  };

  std::optional<LimitReading> read_if_due(Watched& watched, double now) const;
  void take(const LimitReading& reading, Watched& watched, double now);
  void come_to_be_met(const Watched& watched, double value);

  std::function<double()> clock_;
  std::deque<Watched> watched_;
  std::vector<std::string> changes_;  ///< that follow() is to tell
  bool asks_to_stop_ = false;
  bool has_notice_ = false;
};

}  // namespace accrue::train
