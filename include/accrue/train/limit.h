#pragma once

#include <optional>
#include <string>

#include "accrue/core/enum_words.h"
#include "accrue/core/units.h"

namespace accrue::train {

/// What becomes of a run when a limit is met.
enum class LimitAction {
  slow,        ///< it works for a part of the time, as long as the limit is met
  pause,       ///< it does not work, as long as the limit is met
  checkpoint,  ///< it writes a checkpoint, as at a notice (SIGUSR2)
  stop,        ///< it writes a checkpoint and ends, as at a signal
};
inline constexpr auto limit_action_words =
    enum_words<LimitAction>({{LimitAction::slow, "slow"},
                             {LimitAction::pause, "pause"},
                             {LimitAction::checkpoint, "checkpoint"},
                             {LimitAction::stop, "stop"}});

/// An element of run.limits: what a machine says of itself, by a file or a command, and what a run
/// does then. One with a bound is met by a number beyond it; one without is met if the file is
/// there, or the command ends with status 0.
struct Limit {
  std::string file = {};     ///< begins with the number; empty: `command` tells it
  std::string command = {};  ///< for /bin/sh; its output begins with the number
  /// The bound, one of the two or none.
  std::optional<double> above = {}, below = {};
  /// The number at which a limit that was met is over; none: a twentieth of the bound behind it.
  std::optional<double> until = {};
  LimitAction action = LimitAction::slow;
  std::optional<double> speed = {};    ///< of slow: the part of the time that is worked; none: half
  std::optional<Duration> every = {};  ///< how often it is read; none: 1 s, a command 10 s

  bool operator==(const Limit&) const = default;
};

}  // namespace accrue::train
