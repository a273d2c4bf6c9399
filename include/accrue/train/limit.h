#pragma once

#include <optional>
#include <string>

#include "accrue/core/enum_words.h"
#include "accrue/core/units.h"

namespace accrue::train {

/// The action of a run when a limit is met.
enum class LimitAction {
  slow,        ///< works for a fraction of the time while the limit is met
  pause,       ///< does not work while the limit is met
  checkpoint,  ///< writes a checkpoint, as after a notice (SIGUSR2)
  stop,        ///< writes a checkpoint and ends, as after a signal
};
inline constexpr auto limit_action_words =
    enum_words<LimitAction>({{LimitAction::slow, "slow"},
                             {LimitAction::pause, "pause"},
                             {LimitAction::checkpoint, "checkpoint"},
                             {LimitAction::stop, "stop"}});

/// An element of run.limits: a measurement of the machine, from a file or a command, and the action
/// of the run. A limit with a bound is met by a number beyond it; one without a bound is met if the
/// file exists, or the command exits with status 0.
struct Limit {
  std::string file = {};     ///< begins with the number; empty: `command` gives it
  std::string command = {};  ///< for /bin/sh; its output begins with the number
  /// The bound: one of the two or none.
  std::optional<double> above = {}, below = {};
  /// The number at which a met limit ends; not set: the bound, eased by a twentieth of it.
  std::optional<double> until = {};
  LimitAction action = LimitAction::slow;
  std::optional<double> speed = {};    ///< of slow: the fraction of time worked; not set: half
  std::optional<Duration> every = {};  ///< the polling interval; not set: 1 s, 10 s for a command

  bool operator==(const Limit&) const = default;
};

}  // namespace accrue::train
