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

/// The limits of a process while it trains. Reads files and starts commands from the calling
/// thread, which waits for neither.
class LimitWatch {
 public:
  LimitWatch() = default;  ///< without limits
  /// Reads all of them, which takes as long as the slowest command, LimitCommand::kSeconds at most.
  /// Throws a usage Error if one cannot be read. `clock` returns seconds; if it is empty, the
  /// system's clock is used.
  explicit LimitWatch(const std::vector<Limit>& limits, std::function<double()> clock = {});

  bool is_empty() const { return watched_.empty(); }

  /// Reads the limits that are due. Returns the changes, with the reasons, for people. Call it
  /// between micro-batches, as often as you like.
  std::vector<std::string> follow();

  /// The share of the time that this process may work: 1, less if it is to be slow, 0 if it is to
  /// pause.
  double allowed_speed() const;
  /// Whether a limit asked the run to stop.
  bool asks_to_stop() const { return asks_to_stop_; }
  /// Whether a limit has asked for a checkpoint since the last call.
  bool take_notice();

 private:
  struct Watched {
    explicit Watched(const Limit& stated);

    Limit limit;
    std::unique_ptr<LimitCommand> command;  ///< null: the limit is read from a file
    LimitState state;
    double due = 0;  ///< when it is read next
  };

  std::optional<LimitReading> read_if_due(Watched& watched, double now) const;
  void take(const LimitReading& reading, Watched& watched, double now);
  void record_reached(const Watched& watched, double value);

  std::function<double()> clock_;
  std::deque<Watched> watched_;
  std::vector<std::string> changes_;  ///< for follow() to return
  bool asks_to_stop_ = false;
  bool has_notice_ = false;
};

}  // namespace accrue::train
